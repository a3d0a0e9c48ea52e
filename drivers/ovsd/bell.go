package ovsd

import (
	"maps"
	"slices"
	"sync"
)

// bell wakes a goroutine that has slept; rung many times, it wakes it once.
type bell chan struct{}

func newBell() bell { return make(bell, 1) }

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default: // it has not woken since the last time
	}
}

// touched is a set of names that somebody has to look at.
type touched struct {
	mu    sync.Mutex
	names map[string]struct{}
}

func (t *touched) add(names ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[string]struct{}{}
	}
	for _, name := range names {
		t.names[name] = struct{}{}
	}
}

// take empties the set.
func (t *touched) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := slices.Collect(maps.Keys(t.names))
	t.names = nil
	return names
}
