package gate

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"
)

// watchServer answers watches.
type watchServer struct {
	pb.UnimplementedWatchServer
	g *Gate
}

// watch is one watch of a stream.
type watch struct {
	id       int64
	key, end string
	since    int64 // what the node served before this revision is in it
	next     int64 // revision
	lost     int   // how often the node had lost something when it began
	progress bool
	told     time.Time // when it heard last
}

// watching is one stream of a node.
type watching struct {
	g       *Gate
	c       *caller
	stream  pb.Watch_WatchServer
	era     int
	lastID  int64
	watches map[int64]*watch
}

// Watch serves the watches of one stream until the node ends it, is removed, or does not take what
// it is sent; or this netmaster does not hear the store.
func (s *watchServer) Watch(stream pb.Watch_WatchServer) error {
	c, err := s.g.caller(stream.Context())
	if err != nil {
		return err
	}
	w := &watching{g: s.g, c: c, stream: stream, watches: make(map[int64]*watch)}
	s.g.index.mu.RLock()
	w.era = s.g.index.era
	s.g.index.mu.RUnlock()
	defer func() { c.budget.unwatch(len(w.watches)) }()
	requests := make(chan request)
	go w.receive(stream.Context(), requests) // ends with the stream
	err = w.run(stream.Context(), requests)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// request is what a node says on its stream, or the error that ended it.
type request struct {
	*pb.WatchRequest
	err error
}

// receive reads requests. A watch is passed on when the index is as new as its beginning.
func (w *watching) receive(ctx context.Context, to chan<- request) {
	for {
		r, err := w.stream.Recv()
		if err == nil {
			err = w.c.budget.spend(ctx)
		}
		if create := r.GetCreateRequest(); err == nil && create != nil && create.StartRevision > 1 {
			err = w.g.inStep(ctx, create.StartRevision-1)
		}
		select {
		case to <- request{r, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// look is how often a stream looks whether all is well when nothing happens.
const look = time.Second

func (w *watching) run(ctx context.Context, requests <-chan request) error {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		more, err := w.tell(time.Now())
		if err != nil {
			return err
		}
		select {
		case r := <-requests:
			if r.err != nil {
				return r.err
			}
			if err := w.take(r.WatchRequest); err != nil {
				return err
			}
		case <-more:
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := w.g.known(w.c); err != nil {
			return err
		}
		if !w.g.cfg.DB.Connected() {
			return unavailable("this netmaster does not hear the store")
		}
	}
}

// take begins or ends a watch.
func (w *watching) take(r *pb.WatchRequest) error {
	switch {
	case r.GetCreateRequest() != nil:
		return w.begin(r.GetCreateRequest())
	case r.GetCancelRequest() != nil:
		id := r.GetCancelRequest().WatchId
		if w.watches[id] == nil {
			return nil
		}
		w.drop(id)
		return w.send(&pb.WatchResponse{WatchId: id, Canceled: true})
	}
	return nil // progress is told without being asked for
}

func (w *watching) begin(r *pb.WatchCreateRequest) error {
	key, end := string(r.Key), string(r.RangeEnd)
	var refused error
	switch {
	case !mayRead(w.c.host, key, end):
		refused = w.g.refuse(w.c, "Watch", key, "nodes do not watch this, or not to %.100q", end)
	case r.PrevKv || len(r.Filters) > 0 || r.StartRevision < 0 || r.WatchId != 0:
		refused = w.g.refuse(w.c, "Watch", key, "neither filters, nor what was before, nor numbers of one's own can be asked for")
	case !w.c.budget.watch():
		refused = w.g.refuse(w.c, "Watch", key, "more than %d watches", w.c.budget.limits.Watches)
	}
	if refused != nil {
		return w.send(&pb.WatchResponse{WatchId: clientv3.InvalidWatchID, Created: true, Canceled: true, CancelReason: status.Convert(refused).Message()})
	}
	x := w.g.index
	x.mu.RLock()
	begun := &watch{key: key, end: end, since: r.StartRevision, next: r.StartRevision, lost: x.lostBy(w.c.host, time.Now()).times, progress: r.ProgressNotify, told: time.Now()}
	if r.StartRevision == 0 {
		begun.next = x.recent.revision + 1
		begun.since = begun.next
	}
	x.mu.RUnlock()
	w.lastID++
	begun.id = w.lastID
	w.watches[begun.id] = begun
	return w.send(&pb.WatchResponse{WatchId: begun.id, Created: true, Header: &pb.ResponseHeader{Revision: begun.next - 1}})
}

func (w *watching) drop(id int64) {
	delete(w.watches, id)
	w.c.budget.unwatch(1)
}

// tell sends what is new. It returns a channel that is closed when there is more.
func (w *watching) tell(now time.Time) (more <-chan struct{}, err error) {
	for {
		messages, more, err := w.collect(now)
		if err != nil || len(messages) == 0 {
			return more, err
		}
		for _, m := range messages {
			if m.Canceled {
				w.drop(m.WatchId)
			}
			if err := w.send(m); err != nil {
				return nil, err
			}
		}
	}
}

// collect makes the next message for each watch that has something to hear.
func (w *watching) collect(now time.Time) (messages []*pb.WatchResponse, more <-chan struct{}, err error) {
	x := w.g.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.era != w.era {
		return nil, nil, unavailable("the store went back or is another one")
	}
	for _, one := range w.watches {
		if m := x.message(w.c.host, one, now, w.g.cfg.Progress); m != nil {
			one.told = now
			messages = append(messages, m)
		}
	}
	return messages, x.recent.more, nil
}

// startOver tells a client to list again, whatever revision it has.
const startOver = math.MaxInt64 - 1

// message is what a watch has to hear now; nil: nothing. The lock is held.
func (x *index) message(host string, w *watch, now time.Time, progress time.Duration) *pb.WatchResponse {
	if isFiltered(w.key) {
		switch lost := x.lostBy(host, now); {
		case w.lost != lost.times:
			return compacted(w, startOver)
		case w.since <= lost.at: // it has listed before, perhaps
			return compacted(w, lost.at+1)
		}
		if at := x.grown(host, w.since); at != 0 {
			return compacted(w, at+1)
		}
	}
	if w.next <= x.recent.floor {
		return compacted(w, x.recent.floor+1)
	}
	var events []*mvccpb.Event
	upTo := max(x.recent.revision, w.next-1)
	for _, c := range x.recent.from(w.next) {
		if last := len(events); last >= eventsAtOnce && events[last-1].Kv.ModRevision != c.rev {
			upTo = c.rev - 1
			break
		}
		if e := x.eventFor(host, w, c); e != nil {
			events = append(events, e)
		}
	}
	w.next = upTo + 1
	if len(events) == 0 && !(w.progress && now.Sub(w.told) >= progress) {
		return nil
	}
	return &pb.WatchResponse{WatchId: w.id, Events: events, Header: &pb.ResponseHeader{Revision: upTo}}
}

// compacted ends a watch; its client has to be beyond a revision to go on without listing.
func compacted(w *watch, rev int64) *pb.WatchResponse {
	return &pb.WatchResponse{WatchId: w.id, Canceled: true, CompactRevision: rev, CancelReason: "etcdserver: mvcc: required revision has been compacted"}
}

// eventFor is a change as a watch hears it; nil: it does not. A record that is not the
// node's any more is deleted, as far as that is concerned.
func (x *index) eventFor(host string, w *watch, c change) *mvccpb.Event {
	key := string(c.event.Kv.Key)
	if key != w.key && (key < w.key || key >= w.end) {
		return nil
	}
	if x.sees(host, c.after, w.since) {
		if shown, differs := seenBy(host, key, c.event.Kv.Value); differs {
			old := c.event.Kv
			return &mvccpb.Event{Type: c.event.Type, Kv: &mvccpb.KeyValue{Key: old.Key, Value: shown, ModRevision: old.ModRevision, CreateRevision: old.CreateRevision}}
		}
		return c.event
	}
	if !x.sees(host, c.before, w.since) {
		return nil
	}
	return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: c.event.Kv.Key, ModRevision: c.rev}}
}

// send gives a node some time to take a message.
func (w *watching) send(m *pb.WatchResponse) error {
	if m.Header == nil {
		m.Header = &pb.ResponseHeader{}
	}
	late := time.AfterFunc(sendTime, w.c.cut)
	defer late.Stop()
	return w.stream.Send(m)
}
