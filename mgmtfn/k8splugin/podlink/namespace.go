package podlink

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

// Namespace is an open network namespace of a container.
type Namespace struct {
	path string
	fd   int
	id   string
}

// threadNamespace is the namespace of the calling thread.
const threadNamespace = "/proc/thread-self/ns/net"

// Open opens a namespace by its path. Its error is fault.NotFound if the path does not exist, and fault.Invalid if
// it is not a network namespace.
func Open(path string) (*Namespace, error) {
	// O_NONBLOCK: opening a fifo in place of the namespace must not block.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, "network namespace %s does not exist", path)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "network namespace %s: %w", path, err)
	}
	return newNamespace(path, fd)
}

// Dup returns a namespace that was opened elsewhere; path is used in messages only.
func Dup(file *os.File, path string) (*Namespace, error) {
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	runtime.KeepAlive(file)
	if err != nil {
		return nil, fault.New(fault.Invalid, "network namespace %s: %w", path, err)
	}
	return newNamespace(path, fd)
}

func newNamespace(path string, fd int) (*Namespace, error) {
	n := &Namespace{path: path, fd: fd}
	var err error
	if n.id, err = identify(fd); err != nil {
		return nil, errors.Join(fault.New(fault.Invalid, "%s: %w", path, err), n.Close())
	}
	return n, nil
}

// identify returns the identity of a descriptor's namespace: each has an inode of its own while it exists.
func identify(fd int) (string, error) {
	var mount unix.Statfs_t
	if err := unix.Fstatfs(fd, &mount); err != nil {
		return "", fmt.Errorf("stat file system: %w", err)
	}
	if mount.Type != unix.NSFS_MAGIC {
		return "", errors.New("not a namespace")
	}
	if kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return "", errors.New("not a network namespace")
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return "", fmt.Errorf("stat: %w", err)
	}
	return identity(stat), nil
}

func identity(stat unix.Stat_t) string { return fmt.Sprintf("%d:%d", stat.Dev, stat.Ino) }

// ID identifies the namespace, independent of its paths. The id of a namespace that is gone may be reused.
func (n *Namespace) ID() string { return n.id }

// IsOwn reports whether this is the namespace of this process.
func (n *Namespace) IsOwn() (bool, error) {
	own, err := Open(threadNamespace)
	if err != nil {
		return false, err
	}
	return own.id == n.id, own.Close()
}

// FD returns the open descriptor of the namespace, to pass it to the kernel.
func (n *Namespace) FD() int { return n.fd }

// Close closes the descriptor; the namespace continues to exist.
func (n *Namespace) Close() error { return unix.Close(n.fd) }

// run executes work on a thread that has entered the namespace. Sockets opened there stay in the namespace.
//
// The work runs in a goroutine of its own, locked to its thread. If the thread cannot return to its namespace, the
// goroutine ends without unlocking it and the Go runtime terminates the thread; no other goroutine ever runs on a
// thread that is in the wrong namespace.
func (n *Namespace) run(work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		back, err := n.enter()
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		err = work()
		if lost := back(); lost != nil {
			result <- errors.Join(err, lost)
			return
		}
		runtime.UnlockOSThread()
		result <- err
	}()
	return <-result
}

// enter moves the calling thread into the namespace; back undoes it.
func (n *Namespace) enter() (back func() error, err error) {
	home, err := unix.Open(threadNamespace, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open own network namespace: %w", err)
	}
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return nil, errors.Join(fmt.Errorf("enter network namespace %s: %w", n.path, err), unix.Close(home))
	}
	return func() error {
		defer unix.Close(home)
		if err := unix.Setns(home, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("leave network namespace %s: %w", n.path, err)
		}
		return nil
	}, nil
}
