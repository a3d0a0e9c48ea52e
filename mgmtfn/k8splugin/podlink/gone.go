package podlink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Gone tells whether a container runtime has ended the namespace of an identity that it had at a path: then it has removed the path,
// or has another one there. Where that cannot be seen from here, as the folder is not there or the path leads to no namespace, nothing
// is known to be gone. One that is named by a process is gone with that.
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
