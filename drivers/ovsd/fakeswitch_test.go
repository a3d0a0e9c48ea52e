package ovsd

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/fault"
)

// refusedPriority is that of flows which the fake switch does not take.
const refusedPriority = 666

// fakeSwitch is a flow table that takes bundles. It stands beside the tests on
// the real switch, for what a real one cannot be made to do.
type fakeSwitch struct {
	mu       sync.Mutex
	flows    map[string]openflow.Flow
	bundles  int
	tolerant bool // takes everything
	mute     bool // does not answer
	done     chan struct{}
	closing  sync.Once
}

func newFakeSwitch() *fakeSwitch {
	return &fakeSwitch{flows: map[string]openflow.Flow{}, done: make(chan struct{})}
}

func (s *fakeSwitch) Bundle(ctx context.Context, messages ...openflow.Message) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bundles++
	for _, m := range messages {
		if mod, ok := m.(openflow.FlowMod); ok && mod.Flow.Priority == refusedPriority && !s.tolerant {
			return &openflow.Error{Type: 5, Code: 0, Request: mod.String()}
		}
	}
	for _, m := range messages {
		switch mod := m.(type) {
		case openflow.FlowMod:
			if mod.Command == openflow.FlowDeleteStrict {
				delete(s.flows, mod.Flow.MatchKey())
			} else {
				s.flows[mod.Flow.MatchKey()] = mod.Flow
			}
		default:
			return fmt.Errorf("unexpected message %s", m)
		}
	}
	return nil
}

// answer is what every request begins with.
func (s *fakeSwitch) answer(ctx context.Context) error {
	s.mu.Lock()
	mute := s.mute
	s.mu.Unlock()
	if mute {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
		}
	}
	select {
	case <-s.done:
		return fault.New(fault.Unavailable, "connection ended: %w", errors.New("closed"))
	default:
		return nil
	}
}

func (s *fakeSwitch) Barrier(ctx context.Context) error { return s.answer(ctx) }

func (s *fakeSwitch) Flows(ctx context.Context, _ openflow.FlowFilter) ([]openflow.FlowStats, error) {
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []openflow.FlowStats
	for _, f := range s.flows {
		list = append(list, openflow.FlowStats{Flow: f})
	}
	return list, nil
}

func (s *fakeSwitch) Done() <-chan struct{} { return s.done }
func (s *fakeSwitch) Close()                { s.closing.Do(func() { close(s.done) }) }

func (s *fakeSwitch) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// has tells whether there is a flow with this priority.
func (s *fakeSwitch) has(priority uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows {
		if f.Priority == priority {
			return true
		}
	}
	return false
}

func (s *fakeSwitch) count() (flows, bundles int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.flows), s.bundles
}
