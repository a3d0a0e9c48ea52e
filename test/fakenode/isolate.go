package fakenode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// isolated is set in the environment of a test process that runs in its own namespaces.
const isolated = "CONTIV_TEST_ISOLATED"

// namedNamespaces is where `ip netns` keeps the namespaces that have a name.
const namedNamespaces = "/run/netns"

// Isolate runs a test binary again in its own network and mount namespaces, so that its links, mounts and names of
// network namespaces are private and end with it.
func Isolate(m *testing.M) int {
	if os.Getenv(isolated) != "" {
		if err := errors.Join(os.MkdirAll(namedNamespaces, 0o755), unix.Mount("tmpfs", namedNamespaces, "tmpfs", 0, "")); err != nil {
			fmt.Fprintln(os.Stderr, "tests need names of network namespaces of their own:", err)
			return 1
		}
		return m.Run()
	}
	child := exec.Command("/proc/self/exe", os.Args[1:]...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Env = append(os.Environ(), isolated+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	err := child.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests need root and namespaces:", err)
		return 1
	}
	return 0
}

// NewNamespace creates a container's network namespace and returns its path.
func NewNamespace(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "netns")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := onNewThread(func() error { return makeNamespace(path) }); err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			t.Errorf("remove network namespace: %v", err)
		}
	})
	return path
}

// EndNamespace removes a container's network namespace as a container runtime does. The kernel removes its links
// some time later.
func EndNamespace(t testing.TB, path string) {
	t.Helper()
	if err := errors.Join(unix.Unmount(path, unix.MNT_DETACH), os.Remove(path)); err != nil {
		t.Fatalf("end network namespace: %v", err)
	}
}

func makeNamespace(path string) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	if err := unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// onNewThread runs work on a thread that is then discarded.
func onNewThread(work func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		result <- work()
	}()
	return <-result
}

// InNamespace runs a command of the host in a container's network namespace.
func InNamespace(t testing.TB, path string, command ...string) string {
	t.Helper()
	out, err := exec.Command("nsenter", append([]string{"--net=" + path}, command...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v in %s: %v\n%s", command, path, err, out)
	}
	return string(out)
}
