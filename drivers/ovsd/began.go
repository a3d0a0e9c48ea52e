package ovsd

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

// Began is when the ovs-vswitchd that runs was started; zero if this process does not see it, as from a container.
//
// Of which file it was started, /proc/PID/exe, is told to those only who have all of its capabilities, which netplugin has not.
func (d *Driver) Began(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, appctlTime)
	defer cancel()
	var pid int
	err := d.config.control(func(socket string) (err error) {
		pid, err = unixctl.Process(ctx, socket)
		return err
	})
	if err != nil {
		return time.Time{}, fault.New(fault.Unavailable, "process of ovs-vswitchd in %s: %w", d.config.RunDir, err)
	}
	if pid == 0 {
		return time.Time{}, nil
	}
	return began(pid)
}

// ticks of the kernel's clock in a second, as it counts them for processes.
const ticks = 100

// began is when a process was started; zero if it is not seen.
func began(pid int) (time.Time, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fault.New(fault.Internal, "%w", err)
	}
	// The name, in parentheses, may have anything in it. Of what follows, the 20th is the number of ticks from the boot on: proc(5).
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 20 {
		return time.Time{}, fault.New(fault.Internal, "%s: %d fields after the name, want 20", file, len(fields))
	}
	after, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}, fault.New(fault.Internal, "%s: ticks from the boot on: %w", file, err)
	}
	var up unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &up); err != nil {
		return time.Time{}, fault.New(fault.Internal, "time from the boot on: %w", err)
	}
	return time.Now().Add(time.Duration(after)*(time.Second/ticks) - time.Duration(up.Nano())), nil
}
