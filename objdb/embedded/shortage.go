package embedded

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// moreFiles is the remedy.
const moreFiles = "this process may not open more files: raise LimitNOFILE of its unit, or ulimit -n"

// isShortage reports whether etcd has given up because the process may not open more files. Of what it logs, or
// panics with, there is only the text.
func isShortage(err error) bool {
	return slices.ContainsFunc([]string{unix.EMFILE.Error(), unix.ENFILE.Error(), "file descriptor limit"}, func(text string) bool {
		return strings.Contains(err.Error(), text)
	})
}
