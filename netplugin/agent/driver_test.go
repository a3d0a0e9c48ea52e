package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// recorder is a driver that records the objects that it gets, as a switch would.
type recorder struct {
	mu       sync.Mutex
	objects  map[pipeline.Key]pipeline.Object
	replaced int // changes with Replace
	ports    map[string]drivers.Port
	used     map[string]bool // endpoints whose link's other end is in a pod
	asked    int             // number of calls for all ports
	number   int
	left     []string        // endpoints with connections to flush
	known    []string        // existing endpoints as of the last change with Replace
	added    bool            // a port was added since the start
	away     bool            // the switch does not answer
	lost     bool            // it has none of our flows
	owes     time.Time       // since when it accepts nothing
	syncs    int             // number of Sync calls
	refused  pipeline.Key    // an object that the switch refuses
	slow     map[string]bool // endpoints whose port is never created; set before the start
}

func newRecorder() *recorder {
	return &recorder{objects: make(map[pipeline.Key]pipeline.Object), ports: make(map[string]drivers.Port), used: make(map[string]bool)}
}

// restarted returns a driver that finds the ports of this one.
func (r *recorder) restarted() *recorder {
	next := newRecorder()
	next.ports, next.number = maps.Clone(r.ports), r.number
	return next
}

func (r *recorder) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (r *recorder) Update(c drivers.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Replace {
		r.replaced++
		r.known = c.Known
		clear(r.objects)
	}
	for _, key := range c.Remove {
		delete(r.objects, key)
	}
	for _, object := range c.Set {
		r.objects[object.Key()] = object
	}
	for _, e := range c.Left {
		r.left = append(r.left, e.ID)
	}
}

func (r *recorder) Sync(_ context.Context, keys ...pipeline.Key) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.syncs++
	if r.away {
		return fault.New(fault.Unavailable, "switch is away")
	}
	if _, there := r.objects[r.refused]; there && (len(keys) == 0 || slices.Contains(keys, r.refused)) {
		return fault.New(fault.Invalid, "%v is refused", r.refused)
	}
	return nil
}

// refuse makes the switch refuse one object, and no other.
func (r *recorder) refuse(key pipeline.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused = key
}

func (r *recorder) AddPort(ctx context.Context, _ pipeline.Encap, epID string, _ int) (drivers.Port, error) {
	if r.slow[epID] {
		<-ctx.Done()
		return drivers.Port{}, ctx.Err()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return drivers.Port{}, fault.New(fault.Unavailable, "switch is away")
	}
	port, there := r.ports[epID]
	if !there {
		r.number++
		port = drivers.Port{EndpointID: epID, HostLink: fmt.Sprintf("vvport%d", r.number), PodLink: fmt.Sprintf("vport%d", r.number), OFPort: uint32(r.number)}
		r.ports[epID], r.added = port, true
	}
	return port, nil
}

func (r *recorder) FindPort(_ context.Context, epID string) (drivers.Port, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	port, there := r.ports[epID]
	switch {
	case r.away:
		return drivers.Port{}, fault.New(fault.Unavailable, "switch is away")
	case !there:
		return drivers.Port{}, fault.New(fault.NotFound, "port of endpoint %q: there is none", epID)
	}
	return port, nil
}

func (r *recorder) RemovePort(_ context.Context, epID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ports, epID)
	return nil
}

func (r *recorder) PortUsed(epID string) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used[epID], nil
}

// use sets whether a pod uses the port of an endpoint.
func (r *recorder) use(epID string, used bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used[epID] = used
}

func (r *recorder) Ports() []drivers.Port {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return slices.Collect(maps.Values(r.ports))
}

func (r *recorder) portsAsked() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

func (r *recorder) Status() drivers.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return drivers.Status{Connected: !r.away, InSync: !r.away, Lost: r.lost, Owes: r.owes, Ports: len(r.ports), PortAdded: r.added, Flows: len(r.objects)}
}

// Counters counts a packet for each object the switch has.
func (r *recorder) Counters(_ context.Context, keys ...pipeline.Key) (map[pipeline.Key]drivers.Counters, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return nil, fault.New(fault.Unavailable, "switch is away")
	}
	counters := map[pipeline.Key]drivers.Counters{}
	for _, key := range keys {
		if _, there := r.objects[key]; there {
			counters[key] = drivers.Counters{Sent: drivers.Count{Packets: 2}, Decided: drivers.Count{Packets: 1}}
		}
	}
	return counters, nil
}

func (r *recorder) setLost(lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = lost
}

func (r *recorder) synced() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.syncs
}

func (r *recorder) setOwes(since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.owes = since
}

func (r *recorder) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// has returns what the switch has, "kind id", sorted, without the other nodes.
func (r *recorder) has() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(r.objects), byKindAndID)
	var texts []string
	for _, key := range keys {
		if key.Kind != pipeline.KindPeer {
			texts = append(texts, string(key.Kind)+" "+key.ID)
		}
	}
	return texts
}

// object returns an object of the switch; nil if it has none.
func (r *recorder) object(key pipeline.Key) pipeline.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[key]
}

func (r *recorder) replacements() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replaced
}

// gone returns the endpoints with connections to flush.
func (r *recorder) gone() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.left)
}
