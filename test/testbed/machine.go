package testbed

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// machine is a set of namespaces with one process, which is process 1 in them.
type machine struct {
	name string
	dir  string // its private files, and logs
	pid  int    // of process 1, seen from outside

	holder *exec.Cmd      // nil in a bed that was opened
	stdin  io.WriteCloser // closing it ends process 1; nil when detached
}

// The first process of a machine reaps orphans and ends with its input, so that a machine ends with the process
// that created it.
const (
	initAttached = `while read _; do :; done`
	initDetached = `while :; do sleep 86400 & wait $!; done`
)

// mountScript gives a machine private system directories: an empty /run, and copies of /etc and /var that it may
// modify without effect on the host. State directories of the daemons are empty, regardless of the host.
const mountScript = `
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/lock /run/openvswitch
for d in etc var; do
  mkdir -p "$1/$d/upper" "$1/$d/work"
  mount -t overlay overlay -o "lowerdir=/$d,upperdir=$1/$d/upper,workdir=$1/$d/work" "/$d"
done
for d in /var/lib/contiv /var/contiv; do
  mkdir -p "$1$d" "$d"
  mount --bind "$1$d" "$d"
done
mount -t sysfs sysfs /sys
hostname "$2"
ip link set lo up`

func startMachine(ctx context.Context, name, dir string, detach bool) (_ *machine, err error) {
	// Left by a machine of that name when its host was switched off.
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return nil, err
	}
	m := &machine{name: name, dir: dir}
	script := initAttached
	if detach {
		script = initDetached
	}
	m.holder = exec.Command("unshare", "--mount", "--net", "--uts", "--pid", "--ipc", "--fork", "--kill-child",
		"--mount-proc", "--propagation", "private", "sh", "-c", script)
	m.holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !detach {
		if m.stdin, err = m.holder.StdinPipe(); err != nil {
			return nil, err
		}
	}
	if err := m.holder.Start(); err != nil {
		return nil, fmt.Errorf("machine %s: %w", name, err)
	}
	if m.pid, err = onlyChild(ctx, m.holder.Process.Pid); err != nil {
		return nil, errors.Join(fmt.Errorf("machine %s: %w", name, err), m.stop())
	}
	if _, err := m.Run(ctx, "sh", "-ec", mountScript, "sh", dir, name); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return m, nil
}

// Command returns a command to run on the machine. The end of the context kills it and its children: nsenter
// forks, so the signal is sent to the whole group.
func (m *machine) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "nsenter", append(m.enter(), args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func (m *machine) enter() []string {
	return []string{"--target", strconv.Itoa(m.pid), "--mount", "--net", "--uts", "--pid", "--ipc", "--"}
}

// Run runs a command on the machine and returns its standard output; the error includes its standard error.
func (m *machine) Run(ctx context.Context, args ...string) (string, error) {
	return output(m.Command(ctx, args...), m.name, args)
}

// inNetwork runs a script of the host in the machine's network only, where process ids are those outside: links
// can be moved to other machines.
func (m *machine) inNetwork(ctx context.Context, script string, args ...string) error {
	args = append([]string{"--target", strconv.Itoa(m.pid), "--net", "--", "sh", "-ec", script, "sh"}, args...)
	_, err := output(exec.CommandContext(ctx, "nsenter", args...), m.name, args)
	return err
}

func output(cmd *exec.Cmd, where string, args []string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %s: %w: %s%s", where, strings.Join(args, " "), err,
			strings.TrimSpace(stderr.String()), strings.TrimSpace(stdout.String()))
	}
	return stdout.String(), nil
}

// stop ends process 1; the kernel ends the rest.
func (m *machine) stop() error {
	if m.stdin != nil {
		m.stdin.Close()
	}
	if m.pid != 0 {
		if err := syscall.Kill(m.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("machine %s: %w", m.name, err)
		}
	}
	if m.holder != nil {
		m.holder.Wait() // ends by the signal to process 1
		return nil
	}
	if m.pid == 0 {
		return nil
	}
	return waitGone(m.pid)
}

// remove stops the machine and deletes its files.
func (m *machine) remove() error {
	return errors.Join(m.stop(), os.RemoveAll(m.dir))
}

// childLimit limits how long a process may take to fork, and to end, on a busy machine.
const childLimit = time.Minute

// onlyChild waits until the process has a child and returns it. The commands that enter a process namespace
// (unshare, nsenter) fork; signals have to be sent to the child.
func onlyChild(ctx context.Context, pid int) (int, error) {
	path := fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)
	var child int
	var ended error
	err := within(ctx, childLimit, func() error {
		data, err := os.ReadFile(path)
		if ended = err; err != nil {
			return nil
		}
		fields := strings.Fields(string(data))
		if len(fields) == 0 {
			return errors.New("none yet")
		}
		child, err = strconv.Atoi(fields[0])
		return err
	})
	if err = cmp.Or(ended, err); err != nil {
		return 0, fmt.Errorf("child of process %d: %w", pid, err)
	}
	return child, nil
}

func waitGone(pid int) error {
	return within(context.Background(), childLimit, func() error {
		if !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
}

// within calls try until it returns no error, or the time is over.
func within(ctx context.Context, limit time.Duration, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return testkit.Poll(ctx, try)
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
