package gate

import (
	"context"
	"sync"
	"time"
)

// streams are those of all nodes that watch.
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

// wake has all of them told what is new; it waits for none.
func (s *streams) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.all {
		w.wake()
	}
}

// look is how often streams look whether all is well when nothing happens.
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
