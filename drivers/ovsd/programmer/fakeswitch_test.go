package programmer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/fault"
)

// refusedPriority is the priority of flows that the fake switch refuses.
const refusedPriority = 666

// fakeSwitch is a flow table that accepts bundles. It complements the tests with a real switch, for behaviour that
// a real one cannot be made to show.
type fakeSwitch struct {
	mu       *sync.Mutex                    // one for all connections to the switch
	flows    map[string]openflow.PackedFlow // by key
	written  []string                       // keys of flows, as they were added or deleted
	bundles  int
	tolerant bool          // accepts everything
	mute     bool          // does not answer
	closed   bool          // refuses everything
	silent   uint16        // does not answer to flows of this priority; 0: it does
	takes    time.Duration // for each bundle
	tells    time.Duration // for each flow that it lists
	meters   uint32        // the largest number of a meter
	gate     chan struct{} // if not nil, a bundle waits until it receives a value
	done     chan struct{}
	closing  sync.Once
}

func newFakeSwitch() *fakeSwitch {
	return &fakeSwitch{mu: new(sync.Mutex), flows: map[string]openflow.PackedFlow{}, meters: 1 << 18, done: make(chan struct{})}
}

func (s *fakeSwitch) Bundle(ctx context.Context, messages ...openflow.Message) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	gate, takes := s.gate, s.takes
	s.mu.Unlock()
	if s.silentTo(messages) {
		<-ctx.Done()
		return ctx.Err()
	}
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bundles++
	for _, m := range messages {
		if mod, ok := m.(openflow.PackedFlowMod); ok && (s.closed || mod.Flow.Priority() == refusedPriority && !s.tolerant) {
			return &openflow.Error{Type: 5, Code: 0, Request: mod.String()}
		}
	}
	for _, m := range messages {
		mod, ok := m.(openflow.PackedFlowMod)
		if !ok {
			return fmt.Errorf("unexpected message %s", m)
		}
		s.written = append(s.written, mod.Flow.Key)
		if mod.Command == openflow.FlowDeleteStrict {
			delete(s.flows, mod.Flow.Key)
		} else {
			s.flows[mod.Flow.Key] = mod.Flow
		}
	}
	return nil
}

// silentTo reports whether there is no answer to messages.
func (s *fakeSwitch) silentTo(messages []openflow.Message) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.silent != 0 && slices.ContainsFunc(messages, func(m openflow.Message) bool {
		mod, ok := m.(openflow.PackedFlowMod)
		return ok && mod.Flow.Priority() == s.silent
	})
}

func (s *fakeSwitch) Send(ctx context.Context, messages ...openflow.Message) error {
	refusals, err := s.SendEach(ctx, messages...)
	return errors.Join(append(refusals, err)...)
}

func (s *fakeSwitch) SendEach(ctx context.Context, messages ...openflow.Message) (refusals []error, err error) {
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	for _, m := range messages {
		var refusal error
		if mod, ok := m.(openflow.MeterMod); !ok || mod.Meter.ID > s.meters {
			refusal = fmt.Errorf("unexpected message %s of %s", m, messages)
		}
		refusals = append(refusals, refusal)
	}
	return refusals, nil
}

// answer is the beginning of every request.
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

func (s *fakeSwitch) EachFlow(ctx context.Context, filter openflow.FlowFilter, do func(openflow.FlowEntry) error) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	list, tells := slices.Collect(maps.Values(s.flows)), s.tells
	s.mu.Unlock()
	for _, f := range list {
		if time.Sleep(tells); ctx.Err() != nil {
			return ctx.Err()
		}
		if filter.OneTable && f.Table() != filter.Table || (f.Cookie()^filter.Cookie)&filter.CookieMask != 0 {
			continue
		}
		if err := do(f.Entry()); err != nil {
			return err
		}
	}
	return nil
}

func (s *fakeSwitch) Tables(ctx context.Context) ([]openflow.TableStats, error) {
	if err := s.answer(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	active := map[uint8]uint32{}
	for _, f := range s.flows {
		active[f.Table()]++
	}
	var list []openflow.TableStats
	for table, count := range active {
		list = append(list, openflow.TableStats{Table: table, Active: count})
	}
	return list, nil
}

func (s *fakeSwitch) Groups(context.Context) ([]openflow.Group, error) { return nil, nil }
func (s *fakeSwitch) Meters(context.Context) ([]openflow.Meter, error) { return nil, nil }

func (s *fakeSwitch) MeterFeatures(context.Context) (openflow.MeterFeatures, error) {
	return openflow.MeterFeatures{MaxMeters: s.meters}, nil
}

func (s *fakeSwitch) Done() <-chan struct{} { return s.done }
func (s *fakeSwitch) Close()                { s.closing.Do(func() { close(s.done) }) }

func (s *fakeSwitch) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// put adds a flow as another program would.
func (s *fakeSwitch) put(f openflow.Flow) {
	packed, err := openflow.Pack(f)
	if err != nil {
		panic(err)
	}
	s.set(func() { s.flows[packed.Key] = packed })
}

// has reports whether there is a flow with this priority.
func (s *fakeSwitch) has(priority uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.flows {
		if f.Priority() == priority {
			return true
		}
	}
	return false
}

// priorities returns the priorities of flows, in the order in which they were written.
func (s *fakeSwitch) priorities() (list []uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range s.written {
		list = append(list, openflow.PackedFlow{Key: key}.Priority())
	}
	return list
}

func (s *fakeSwitch) count() (flows, bundles int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.flows), s.bundles
}

// again returns another connection to the same switch. The previous one has ended.
func (s *fakeSwitch) again() *fakeSwitch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &fakeSwitch{mu: s.mu, flows: s.flows, silent: s.silent, takes: s.takes, tells: s.tells, meters: s.meters, done: make(chan struct{})}
}
