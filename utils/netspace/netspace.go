// Package netspace creates and enters network namespaces.
package netspace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// dir is the directory of named namespaces, as used by `ip netns`.
const dir = "/run/netns"

// Open opens the namespace with a name, and creates it if necessary. It exists until it is deleted, independent of
// processes. A file with that name that is not a namespace is removed.
func Open(name string) (ns netns.NsHandle, made bool, err error) {
	path := filepath.Join(dir, name)
	ns, err = netns.GetFromPath(path)
	switch {
	case err == nil && isNamespace(ns):
		return ns, false, nil
	case err == nil:
		// A process was killed between creating the file and mounting the namespace on it.
		if err := errors.Join(ns.Close(), os.Remove(path)); err != nil {
			return netns.None(), false, fmt.Errorf("network namespace %s: %w", name, err)
		}
	case !errors.Is(err, os.ErrNotExist):
		return netns.None(), false, fmt.Errorf("network namespace %s: %w", name, err)
	}
	if err := shareDir(); err != nil {
		return netns.None(), false, fmt.Errorf("network namespace %s: %w", name, err)
	}
	err = onThread(func() error {
		ns, err = netns.NewNamed(name)
		return err
	})
	if err != nil {
		return netns.None(), false, fmt.Errorf("network namespace %s: %w", name, err)
	}
	return ns, true, nil
}

// shareDir makes the directory a shared mount of its own, as `ip netns` does when it creates the first namespace.
// Done later, it would be a second mount on top, and existing names could not be removed any more.
func shareDir() error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) { // it is not a mount point
		return err
	}
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
}

// Delete removes a namespace's name and its links, unless a process is in it. A missing namespace is not an error.
func Delete(name string) error {
	err := netns.DeleteNamed(name)
	if errors.Is(err, unix.EINVAL) { // a file without a namespace
		err = os.Remove(filepath.Join(dir, name))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("network namespace %s: %w", name, err)
	}
	return nil
}

// isNamespace reports whether a descriptor refers to a namespace.
func isNamespace(ns netns.NsHandle) bool {
	var mount unix.Statfs_t
	return unix.Fstatfs(int(ns), &mount) == nil && mount.Type == unix.NSFS_MAGIC
}

// Do calls work on a thread that has entered the namespace with a name. Sockets that it opens stay there.
func Do(name string, work func() error) error {
	ns, err := netns.GetFromPath(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", name, err)
	}
	if err = In(&ns, work); err != nil {
		err = fmt.Errorf("network namespace %s: %w", name, err)
	}
	return errors.Join(err, ns.Close())
}

// In calls work on a thread that has entered a namespace; nil is the present one.
func In(ns *netns.NsHandle, work func() error) error {
	return onThread(func() error {
		if ns != nil {
			if err := netns.Set(*ns); err != nil {
				return fmt.Errorf("enter network namespace: %w", err)
			}
		}
		return work()
	})
}

// onThread calls work on a thread that is not reused afterwards, since it may be in another namespace. The Go
// runtime terminates a thread whose goroutine ends without unlocking it.
func onThread(work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- work()
	}()
	return <-result
}
