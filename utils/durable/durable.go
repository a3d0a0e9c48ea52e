// Package durable writes small files atomically, so that a crash leaves the old or the new content.
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

// tempPrefix marks files that are not renamed yet, or whose writer was interrupted.
const tempPrefix = ".tmp-"

// MakeDir creates a directory that only its owner can read.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make directory %s: %w", dir, err)
	}
	return nil
}

// Write replaces a file: when it returns nil, the new content is on disk under the name; after an error the old
// one still is.
func Write(path string, data []byte) error {
	if err := write(path, data, (*os.File).Sync); err != nil {
		return err
	}
	return flush(filepath.Dir(path))
}

// WriteProgram replaces a program as Write does, even while it runs; all users may execute it.
func WriteProgram(path string, data []byte) error {
	executable := func(f *os.File) error { return errors.Join(f.Chmod(0o755), f.Sync()) }
	if err := write(path, data, executable); err != nil {
		return err
	}
	return flush(filepath.Dir(path))
}

// Put replaces a file atomically for readers, also after a crash of the process. A power failure may restore the
// old content or corrupt the new one, until Sync has returned.
func Put(path string, data []byte) error {
	return write(path, data, func(*os.File) error { return nil })
}

// Sync makes the content written by Put durable.
func Sync(path string) error {
	if err := flush(path); err != nil {
		return err
	}
	return flush(filepath.Dir(path))
}

// write replaces the content of a file atomically for readers.
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

// Remove deletes a file; a missing file is not an error.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// List returns the names of the files of a directory that end in suffix. A missing directory is empty.
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

// Sweep removes the temporary files of interrupted writers. The directory must have no writer at that time.
func Sweep(dir string) error { return sweep(dir, func(fs.FileInfo) bool { return true }) }

// overlap is longer than a write takes. Another process may write to a directory while its owner starts: the
// process that the owner replaces, or one that shares the directory.
const overlap = time.Minute

// SweepOld removes the temporary files in directories of writers that were interrupted before a process was
// started. A missing directory is empty.
func SweepOld(started time.Time, dirs ...string) (err error) {
	for _, dir := range dirs {
		err = errors.Join(err, sweep(dir, func(f fs.FileInfo) bool { return f.ModTime().Before(started.Add(-overlap)) }))
	}
	return err
}

// sweep removes the temporary files for which goes returns true. Other files may have the same prefix.
func sweep(dir string, goes func(fs.FileInfo) bool) error {
	names, err := List(dir, "")
	for _, name := range names {
		number, is := strings.CutPrefix(name, tempPrefix)
		if !is || number == "" || strings.Trim(number, "0123456789") != "" {
			continue
		}
		info, problem := os.Lstat(filepath.Join(dir, name))
		switch {
		case errors.Is(problem, fs.ErrNotExist): // the writer has renamed it
		case problem != nil:
			err = errors.Join(err, fmt.Errorf("sweep %s: %w", dir, problem))
		case goes(info):
			err = errors.Join(err, Remove(filepath.Join(dir, name)))
		}
	}
	return err
}

// flush syncs the content of a file, or the names in a directory.
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
