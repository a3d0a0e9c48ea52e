package testbed

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// The clock of a process can be set ahead, back and right again while it runs; its monotonic clock goes on.
func TestTheClockOfAProcessIsSet(t *testing.T) {
	m := startClocked(t)
	// bash asks the time itself, by functions of libc.
	p, err := m.Start("bash", "bash", "-c", `while sleep 0.05; do printf '%(%s)T %s\n' -1 "$EPOCHSECONDS"; done`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // its end is noticed, however often it was suspended for the clock
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	said := func(ahead time.Duration) error {
		return within(t.Context(), startLimit, func() error { return says(m.LogFile("bash"), time.Now().Add(ahead)) })
	}
	if err := said(0); err != nil { // it runs
		t.Fatal(err)
	}
	for range 20 {
		if err := p.SetClock(time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	for _, ahead := range []time.Duration{0, 10 * time.Minute, -time.Hour, 0} {
		if err := p.SetClock(ahead); err != nil {
			t.Fatal(err)
		}
		if err := said(ahead); err != nil {
			t.Errorf("ahead by %s: %v", ahead, err)
		}
	}
}

// startClocked starts a machine on which clocks are set.
func startClocked(t *testing.T) *machine {
	t.Helper()
	testkit.NeedsMachine(t)
	m, err := startMachine(t.Context(), "clock", t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := os.MkdirAll(m.dir+"/log", 0o755); err != nil {
		t.Fatal(err)
	}
	return m
}

// A daemon of a machine that was off for a month never sees another time than that of now.
func TestADaemonBeginsWithTheClockOfItsNode(t *testing.T) {
	n := &Node{machine: startClocked(t)}
	const month = 30 * 24 * time.Hour
	n.SetClock(month)
	for turn := range 10 {
		name := fmt.Sprint("bash", turn)
		p, err := n.startDaemon(name, append(standing("bash"), "-c", `printf '%(%s)T %s\n' -1 "$EPOCHSECONDS"; kill -STOP $$; sleep 60`))
		if err != nil {
			t.Fatal(err)
		}
		if err := within(t.Context(), startLimit, func() error { return says(n.LogFile(name), time.Now().Add(month)) }); err != nil {
			t.Fatal(err)
		}
		// Signals are its own again.
		if err := errors.Join(p.awaitOwnStop(), p.Resume(), p.Kill()); err != nil {
			t.Error(err)
		}
	}
}

// says returns an error unless the last time of a log is now, by two functions of the kernel.
func says(log string, now time.Time) error {
	data, err := os.ReadFile(log)
	if err != nil {
		return err
	}
	lines := strings.Split(string(data), "\n")
	last := strings.Fields(lines[max(0, len(lines)-2)])
	for _, text := range last {
		if seconds, err := strconv.ParseInt(text, 10, 64); err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Second {
			return fmt.Errorf("the process says %q, want %d: %v", last, now.Unix(), err)
		}
	}
	if len(last) != 2 {
		return fmt.Errorf("the process says %q", last)
	}
	return nil
}
