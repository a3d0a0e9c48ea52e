package podlink

import (
	"errors"
	"io/fs"
	"regexp"

	"golang.org/x/sys/unix"
)

// processes is where processes are seen, by their numbers.
const processes = "/proc"

var byProcess = regexp.MustCompile("^" + processes + "/[0-9]+/")

// IsOfProcess tells whether a path names a namespace by the number of a process that is in it. That number means another process, or none,
// to those who see other processes than who has said it.
func IsOfProcess(path string) bool { return byProcess.MatchString(path) }

// Seen tells whether a path leads to the namespace here as well as it did for who has opened it. Of processes that may do what this one may
// not, only that they are there is seen.
func (n *Namespace) Seen(path string) bool {
	var stat unix.Stat_t
	err := unix.Stat(path, &stat)
	return err == nil && identity(stat) == n.id || errors.Is(err, fs.ErrPermission)
}
