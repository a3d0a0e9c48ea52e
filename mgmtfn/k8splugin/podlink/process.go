package podlink

import (
	"errors"
	"io/fs"
	"regexp"

	"golang.org/x/sys/unix"
)

// processes is the mount point of proc, with a directory per process id.
const processes = "/proc"

var byProcess = regexp.MustCompile("^" + processes + "/[0-9]+/")

// IsOfProcess reports whether a path names a namespace by the id of a process in it. In another PID namespace the
// same id refers to another process, or to none.
func IsOfProcess(path string) bool { return byProcess.MatchString(path) }

// Seen reports whether a path refers to this namespace for this process, too, and not only for the process that
// opened it. Of processes with more privileges than this one, only their existence is checked.
func (n *Namespace) Seen(path string) bool {
	var stat unix.Stat_t
	err := unix.Stat(path, &stat)
	return err == nil && identity(stat) == n.id || errors.Is(err, fs.ErrPermission)
}
