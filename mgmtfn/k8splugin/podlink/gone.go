package podlink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Gone reports whether a container runtime has removed the namespace with an identity that was at a path: the path
// does not exist any more, or refers to another namespace. If that cannot be determined, because the directory
// does not exist or the path refers to no namespace, it returns false. A namespace named by a process is gone with
// the process.
func Gone(path, id string) (bool, error) {
	var mount unix.Statfs_t
	var stat unix.Stat_t
	err := errors.Join(unix.Statfs(path, &mount), unix.Stat(path, &stat))
	if errors.Is(err, fs.ErrNotExist) {
		if IsOfProcess(path) {
			return isFolder(processes)
		}
		return isFolder(filepath.Dir(path))
	}
	if err != nil {
		return false, fmt.Errorf("network namespace %s: %w", path, err)
	}
	return mount.Type == unix.NSFS_MAGIC && identity(stat) != id, nil
}

func isFolder(path string) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}
