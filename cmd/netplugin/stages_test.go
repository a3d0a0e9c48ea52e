package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
)

// diary notes the order in which things end.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

// until is a task that runs until ctx is done.
func (d *diary) until(name string) task {
	return func(ctx context.Context) error {
		<-ctx.Done()
		d.note(name)
		return ctx.Err()
	}
}

func TestFrontStopsBeforeTheCore(t *testing.T) {
	var d diary
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serve(ctx, []task{d.until("core")}, []task{d.until("front"), d.until("front")}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.lines, []string{"front", "front", "core"}) {
		t.Errorf("ended in order %v", d.lines)
	}
}

func TestFailureOfOnePartEndsAllAndIsReported(t *testing.T) {
	broken := errors.New("broken")
	failing := func(context.Context) error { return broken }
	leaving := func(context.Context) error { return nil }
	for name, c := range map[string]struct {
		core, front task
		want        error
	}{
		"core fails":  {core: failing, want: broken},
		"front fails": {front: failing, want: broken},
		"core leaves": {core: leaving, want: errCoreEnded},
	} {
		t.Run(name, func(t *testing.T) {
			var d diary
			core, front := []task{d.until("core")}, []task{d.until("front")}
			if c.core != nil {
				core = append(core, c.core)
			}
			if c.front != nil {
				front = append(front, c.front)
			}
			if err := serve(t.Context(), core, front); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if len(d.lines) != 2 {
				t.Errorf("ended: %v", d.lines)
			}
		})
	}
}
