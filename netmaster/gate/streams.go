package gate

import (
	"context"
	"sync"
	"time"
)

// streams are the watch streams of all nodes.
type streams struct {
	mu  sync.Mutex
	all map[*watching]struct{}
}

func (s *streams) add(w *watching) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*watching]struct{})
	}
	s.all[w] = struct{}{}
}

func (s *streams) remove(w *watching) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, w)
}

// wake wakes all streams without blocking.
func (s *streams) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.all {
		w.wake()
	}
}

// look is how often idle streams check the state of their watches.
const look = time.Second

// wakeStreams wakes the streams at each change, until ctx ends.
func (g *Gate) wakeStreams(ctx context.Context) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		more := g.index.changed()
		g.streams.wake()
		select {
		case <-more:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
