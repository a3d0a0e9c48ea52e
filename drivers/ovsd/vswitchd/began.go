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

// Began is when the program of the ovs-vswitchd that runs was started; zero if this process does not see it, as from a container.
//
// Of which file it was started, /proc/PID/exe, is told to those only who have all of its capabilities, which netplugin has not.
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

// monitor is what the process calls itself that ovs-vswitchd has watch it, with --monitor. When the one that it watches has crashed, it
// makes another one of itself, without reading the program again.
const monitor = "monitor"

// began is when the program of a process was started; zero if it is not seen.
func began(pid int) (time.Time, error) {
	p, err := processOf(pid)
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	switch parent, err := processOf(p.parent); {
	case errors.Is(err, os.ErrNotExist): // not seen, or gone
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

// process is what the kernel tells everybody of one.
type process struct {
	name   string
	parent int
	after  time.Duration // from the boot on, when it began
}

// ticks of the kernel's clock in a second, as it counts them for processes.
const ticks = 100

// processOf reads it: proc(5). Its error is os.ErrNotExist where no process of this number is seen.
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
