// Package netspace makes and enters network namespaces.
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

// dir is where namespaces have names, as `ip netns` knows them.
const dir = "/run/netns"

// Open opens the namespace of a name; it is made if there is none. It lasts until
// somebody deletes it, whoever runs. A file of that name that is no namespace is removed.
func Open(name string) (ns netns.NsHandle, made bool, err error) {
	path := filepath.Join(dir, name)
	ns, err = netns.GetFromPath(path)
	switch {
	case err == nil && isNamespace(ns):
		return ns, false, nil
	case err == nil:
		// Whoever made it was killed between making the file and mounting the namespace on it.
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

// shareDir makes the directory a mount of its own that is shared, as `ip netns` does
// when it makes the first namespace. Made later, it would be a second layer, and the
// names that were there before could not be removed any more.
func shareDir() error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) { // it is no mount
		return err
	}
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
}

// Delete takes a namespace its name, and its links, unless somebody is in it. One
// that is not there is no error.
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

// isNamespace tells whether a descriptor is that of a namespace.
func isNamespace(ns netns.NsHandle) bool {
	var mount unix.Statfs_t
	return unix.Fstatfs(int(ns), &mount) == nil && mount.Type == unix.NSFS_MAGIC
}

// Do does work on a thread that has entered the namespace of a name. Sockets that it
// opens stay there.
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

// In does work on a thread that has entered a namespace; nil is the one it is in.
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

// onThread does work on a thread that nobody uses afterwards: it may be in another
// namespace by then. The Go runtime ends a thread that its goroutine has not unlocked.
func onThread(work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- work()
	}()
	return <-result
}
