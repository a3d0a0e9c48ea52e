package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// presenceFile is locked by every netplugin of the node while it runs. Several may run, as one takes over from the
// other; a cleanup runs alone.
const presenceFile = "/run/contiv/netplugin.lock"

// bePresent takes a shared lock that marks a running netplugin, until the result is closed or the process ends.
func bePresent(path string) (*os.File, error) {
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return locked(path, os.O_CREATE, unix.LOCK_SH, "netplugin cleanup is running on this node")
}

// beAlone takes an exclusive lock: it fails if a netplugin runs, and prevents others from starting until the
// result is closed. A file that was created for that, because none has run since the boot or the last cleanup, is
// removed with it, and so is its directory if it is empty.
func beAlone(path string) (lock io.Closer, made bool, err error) {
	_, err = os.Lstat(path)
	if made = errors.Is(err, fs.ErrNotExist); made {
		if err := durable.MakeDir(filepath.Dir(path)); err != nil {
			return nil, false, err
		}
	}
	file, err := locked(path, os.O_CREATE, unix.LOCK_EX, "a netplugin is running on this node: stop it first")
	if err != nil {
		return nil, made, err
	}
	if made {
		return passing{file, path}, made, nil
	}
	return file, made, nil
}

// passing is a lock that removes its file when it is closed.
type passing struct {
	io.Closer
	path string
}

func (p passing) Close() error {
	err := durable.Remove(p.path)
	_ = os.Remove(filepath.Dir(p.path)) // fails if others use it
	return errors.Join(err, p.Closer.Close())
}

func locked(path string, create, how int, taken string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|create, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB); err != nil {
		closed := file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fault.New(fault.Conflict, "%s (%s)", taken, path)
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), closed)
	}
	return file, nil
}
