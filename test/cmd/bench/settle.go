package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/contiv/netplugin/utils/retry"
)

const (
	settleIdle  = 0.5 // of the processors' time
	settleLook  = 500 * time.Millisecond
	settleLimit = 30 * time.Second
)

// settle waits until the machine has completed most earlier work: the removal of namespaces and containers
// continues in the kernel and the runtime after they are gone, which must not affect the next measurement. On a
// machine with other work it waits until its time limit.
func settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		before, err := readProcessors()
		if err != nil {
			return err
		}
		if retry.Pause(ctx, settleLook); ctx.Err() != nil {
			return nil // the next measurement detects whether ctx itself has ended
		}
		now, err := readProcessors()
		if err != nil {
			return err
		}
		if now.idle-before.idle >= settleIdle*(now.all-before.all) {
			return nil
		}
	}
}

// processors is the time of all processors since the boot, in ticks.
type processors struct{ idle, all float64 }

// readProcessors reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
func readProcessors() (p processors, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return p, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var ticks [8]float64
	if _, err := fmt.Sscanf(line, "cpu %f %f %f %f %f %f %f %f", &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]); err != nil {
		return p, fmt.Errorf("first line of /proc/stat %q: %w", line, err)
	}
	for _, t := range ticks {
		p.all += t
	}
	p.idle = ticks[3] + ticks[4]
	return p, nil
}
