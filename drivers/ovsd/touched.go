package ovsd

import (
	"maps"
	"slices"
	"sync"
)

// touched is a set of names to be checked.
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
