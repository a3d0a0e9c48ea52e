package embedded

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ofShortage adds the remedy to an error that isShortage, and returns others as they are.
func ofShortage(err error) error {
	if !isShortage(err) {
		return err
	}
	if strings.Contains(err.Error(), unix.ENFILE.Error()) {
		return fmt.Errorf("%w; this machine may not open more files: raise the sysctl fs.file-max", err)
	}
	return fmt.Errorf("%w; this process may not open more files: raise LimitNOFILE of its unit, or ulimit -n", err)
}

// isShortage reports whether an error is that the process may not open more files. Of what etcd logs, or
// panics with, there is only the text.
func isShortage(err error) bool {
	return slices.ContainsFunc([]string{unix.EMFILE.Error(), unix.ENFILE.Error(), "file descriptor limit"}, func(text string) bool {
		return strings.Contains(err.Error(), text)
	})
}
