package vswitchd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/ofnet/unixctl"
	"github.com/contiv/netplugin/utils/fault"
)

// Began returns when the program of the running ovs-vswitchd was started; zero if this process does
// not see it, as from a container.
//
// The file of the program, /proc/PID/exe, is readable only for processes that have all of its
// capabilities, which netplugin has not.
func (c Control) Began(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var pid int
	err := c.atSocket(ovsVswitchd, func(socket string) (err error) {
		pid, err = unixctl.Process(ctx, socket)
		return err
	})
	if err != nil {
		return time.Time{}, fault.New(fault.Unavailable, "process of ovs-vswitchd in %s: %w", c.RunDir, err)
	}
	if pid == 0 {
		return time.Time{}, nil
	}
	return began(pid)
}

// monitor is the name of the process by which ovs-vswitchd is monitored, with --monitor. After a crash of the
// monitored one, it forks another one, without loading the program again.
const monitor = "monitor"

// began returns when the program of a process was started; zero if it is not visible.
func began(pid int) (time.Time, error) {
	p, err := processOf(pid)
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	switch parent, err := processOf(p.parent); {
	case errors.Is(err, os.ErrNotExist): // not visible, or ended
	case err != nil:
		return time.Time{}, err
	case parent.name == monitor:
		p = parent
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, fault.New(fault.Internal, "time from the boot on: %w", err)
	}
	return time.Now().Add(p.after - time.Duration(up.Nano())), nil
}

// process is what every process may read about another one.
type process struct {
	name   string
	parent int
	after  time.Duration // start time since the boot
}

// ticks is the number of clock ticks per second in the kernel's process times.
const ticks = 100

// processOf reads a process: proc(5). Its error is os.ErrNotExist if no process of this number is visible.
func processOf(pid int) (process, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if err != nil {
		return process{}, fault.New(fault.Internal, "%w", err)
	}
	// The name is in parentheses, and may have anything in it, also those.
	_, rest, _ := strings.Cut(string(text), "(")
	end := max(0, strings.LastIndexByte(rest, ')'))
	fields := strings.Fields(strings.TrimPrefix(rest[end:], ")"))
	if len(fields) < 20 {
		return process{}, fault.New(fault.Internal, "%s: %d fields after the name, want 20", file, len(fields))
	}
	parent, wrongParent := strconv.Atoi(fields[1])
	after, wrongTime := strconv.ParseInt(fields[19], 10, 64)
	if err := errors.Join(wrongParent, wrongTime); err != nil {
		return process{}, fault.New(fault.Internal, "%s: %w", file, err)
	}
	return process{rest[:end], parent, time.Duration(after) * (time.Second / ticks)}, nil
}
