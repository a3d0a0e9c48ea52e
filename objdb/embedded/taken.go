package embedded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

// refuseTaken returns fault.Conflict for a data directory in which a member runs, of this process or another one. etcd itself would wait
// for the lock without a message, and could not be stopped meanwhile.
func refuseTaken(dir string) error {
	path := filepath.Join(dir, "member", "snap", "db") // which a running member has locked
	file, err := os.OpenFile(path, os.O_RDWR, 0)       // NFS locks nothing for itself alone that was opened to be read only
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Invalid, "etcd data directory: %w; it has to belong to the user that netmaster runs as, with all that is in it", err)
	case err != nil:
		return fault.New(fault.Unavailable, "etcd data directory: %w", err)
	}
	defer func() { _ = file.Close() }() // which ends the lock
	switch err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		return fault.New(fault.Conflict, "etcd data directory %s: another process runs a member in it, and has locked %s: stop that one first", dir, path)
	case err != nil:
		return fault.New(fault.Unavailable, "etcd data directory: lock %s: %w", path, err)
	}
	return nil
}
