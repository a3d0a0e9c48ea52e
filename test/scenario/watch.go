package scenario

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// Watch follows, from inside a pod, whether an echo server answers.
type Watch struct {
	name   string // of the pod
	events chan transition
	cancel context.CancelFunc
	done   chan error
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

// Await waits until answers come, or cease, and tells since when.
func (w *Watch) Await(ctx context.Context, answered bool) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		select {
		case t, ok := <-w.events:
			if !ok {
				return time.Time{}, fmt.Errorf("%s: the watch has ended", w.name)
			}
			if t.Answered == answered {
				return time.Unix(0, t.At), nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("%s: waited for answered=%v: %w", w.name, answered, ctx.Err())
		}
	}
}

// Stop ends the watch.
func (w *Watch) Stop() {
	w.cancel()
	<-w.done
}

// AwaitAll waits until every watch has seen the fate and returns the latest time.
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
