// Package durable writes small files that survive a crash whole or not at all.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tempPrefix marks files whose writer did not get to the rename.
const tempPrefix = ".tmp-"

// MakeDir creates a directory that only its owner can look into.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	return nil
}

// Write replaces a file: when it returns, either the whole new content is on
// disk under the name, or an error says why the old one still is.
func Write(path string, data []byte) error {
	if err := write(path, data, (*os.File).Sync); err != nil {
		return err
	}
	return flush(filepath.Dir(path))
}

// WriteProgram replaces a program as Write does, also while it runs; everybody may run it.
func WriteProgram(path string, data []byte) error {
	executable := func(f *os.File) error { return errors.Join(f.Chmod(0o755), f.Sync()) }
	if err := write(path, data, executable); err != nil {
		return err
	}
	return flush(filepath.Dir(path))
}

// Put replaces a file for whoever reads it, also after a crash of the process.
// A loss of power may bring the old content back or spoil the new one, until
// Sync has returned.
func Put(path string, data []byte) error {
	return write(path, data, func(*os.File) error { return nil })
}

// Sync makes durable what Put wrote.
func Sync(path string) error {
	if err := flush(path); err != nil {
		return err
	}
	return flush(filepath.Dir(path))
}

// write gives a file its content at once, for whoever reads it.
func write(path string, data []byte, sync func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), tempPrefix)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, sync(f), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
	}
	return nil
}

// Remove deletes a file; one that is not there is no error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// List names the files of a directory that end in suffix. A directory that is
// not there is empty.
func List(dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", dir, err)
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Sweep removes what interrupted writers left. Only for a directory that
// nobody writes to at the moment.
func Sweep(dir string) error { return sweep(dir, func(fs.FileInfo) bool { return true }) }

// overlap is longer than a writer takes. Another process may write to a directory while its
// owner starts: the one that the owner takes over from, or one that shares the directory.
const overlap = time.Minute

// SweepOld removes what writers left in directories that were interrupted before a process
// has started. A directory that is not there is empty.
func SweepOld(started time.Time, dirs ...string) (err error) {
	for _, dir := range dirs {
		err = errors.Join(err, sweep(dir, func(f fs.FileInfo) bool { return f.ModTime().Before(started.Add(-overlap)) }))
	}
	return err
}

// sweep removes those files of interrupted writers that are to go. Others may have files whose names begin alike.
func sweep(dir string, goes func(fs.FileInfo) bool) error {
	names, err := List(dir, "")
	for _, name := range names {
		number, is := strings.CutPrefix(name, tempPrefix)
		if !is || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		info, problem := os.Lstat(filepath.Join(dir, name))
		switch {
		case errors.Is(problem, fs.ErrNotExist): // its writer has come to the rename
		case problem != nil:
			err = errors.Join(err, fmt.Errorf("sweep %s: %w", dir, problem))
		case goes(info):
			err = errors.Join(err, Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// flush makes the content of a file durable, or the names in a directory.
func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
