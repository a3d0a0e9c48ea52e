package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// Watch observes, from inside a pod, whether an echo server answers.
type Watch struct {
	name   string // of the pod
	events chan transition
	cancel context.CancelFunc
	done   chan error
	up     bool // whether answers arrived as of the last event
}

type transition struct {
	At       int64 `json:"at"` // Unix nanoseconds
	Answered bool  `json:"answered"`
}

// StartWatch sends a datagram per millisecond from the pod until Stop.
func StartWatch(ctx context.Context, pod *testbed.Pod, target string) (*Watch, error) {
	return StartWatchBy(ctx, pod.Name, func(ctx context.Context) *exec.Cmd {
		return pod.Command(ctx, pod.Probe(), "watch", "-to", target, "-for", "5m")
	})
}

// StartWatchBy is StartWatch for a pod of no bed, where a command runs "probe watch".
func StartWatchBy(ctx context.Context, name string, command func(ctx context.Context) *exec.Cmd) (*Watch, error) {
	ctx, cancel := context.WithCancel(ctx)
	cmd := command(ctx)
	out, err := cmd.StdoutPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	w := &Watch{name: name, events: make(chan transition, 1024), cancel: cancel, done: make(chan error, 1)}
	go func() {
		defer close(w.events)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var t transition
			if json.Unmarshal(lines.Bytes(), &t) == nil {
				w.events <- t
			}
		}
		w.done <- cmd.Wait()
	}()
	return w, nil
}

// awaitTime is the time limit for a change.
const awaitTime = 20 * time.Second

// Await waits until answers arrive, or stop arriving, and returns since when.
func (w *Watch) Await(ctx context.Context, answered bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	for {
		t, err := w.next(ctx)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s: waited for answered=%v: %w", w.name, answered, err)
		}
		if t.Answered == answered {
			return time.Unix(0, t.At), nil
		}
	}
}

// AwaitSteady waits until answers have arrived, or not, for the duration of steady without a change. So later
// changes are not caused by a late answer.
func (w *Watch) AwaitSteady(ctx context.Context, answered bool, steady time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	for {
		quiet, stop := context.WithTimeout(ctx, steady)
		_, err := w.next(quiet)
		isQuiet := quiet.Err() != nil
		stop()
		switch {
		case err == nil:
		case !isQuiet || ctx.Err() != nil:
			return fmt.Errorf("%s: waited for answered=%v to last: %w", w.name, answered, err)
		case w.up == answered:
			return nil
		}
	}
}

// next returns the next change.
func (w *Watch) next(ctx context.Context) (transition, error) {
	select {
	case t, ok := <-w.events:
		if !ok {
			return t, errors.New("the watch has ended")
		}
		w.up = t.Answered
		return t, nil
	case <-ctx.Done():
		return transition{}, ctx.Err()
	}
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.cancel()
	<-w.done
}

// AwaitAll waits until every watch has seen the change and returns the latest time.
func AwaitAll(ctx context.Context, watches []*Watch, answered bool) (latest time.Time, err error) {
	for _, w := range watches {
		at, err := w.Await(ctx, answered)
		if err != nil {
			return latest, err
		}
		if at.After(latest) {
			latest = at
		}
	}
	return latest, nil
}
