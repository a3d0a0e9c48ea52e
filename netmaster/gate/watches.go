package gate

import (
	"context"
	"errors"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/status"
)

// watchServer serves Watch.
type watchServer struct {
	pb.UnimplementedWatchServer
	g *Gate
}

// watch is one watch of a stream.
type watch struct {
	id       int64
	key, end string
	since    int64 // the first revision that was asked for: the node has what is older
	next     int64 // the next revision to send
	latest   int64 // revision of the store after the watch began; math.MaxInt64: not known yet
	lost     int   // the node's number of losses when the watch began
	era      int   // number of the store's history
	progress bool
	begun    time.Time
	told     time.Time // time of the last message
}

// listing is that of the watch's client.
func (w *watch) listing() listing { return listing{before: w.since, latest: w.latest} }

// watching is one watch stream of a node.
type watching struct {
	g       *Gate
	c       *caller
	stream  pb.Watch_WatchServer
	wanted  atomic.Int64   // number of wake-ups since everything was sent
	telling sync.WaitGroup // the sending goroutine

	mu      sync.Mutex // also serializes sending
	lastID  int64
	watches map[int64]*watch
}

// Watch serves the watches of one stream until the node ends it or is removed. A second goroutine sends the
// messages; it ends when none are left, so that an idle node costs one goroutine.
func (s *watchServer) Watch(stream pb.Watch_WatchServer) error {
	c, err := s.g.caller(stream.Context())
	if err != nil {
		return err
	}
	w := &watching{g: s.g, c: c, stream: stream, watches: make(map[int64]*watch)}
	s.g.streams.add(w)
	defer func() {
		s.g.streams.remove(w)
		w.telling.Wait()
		c.budget.unwatch(len(w.watches))
	}()
	for {
		r, err := w.receive(stream.Context())
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = w.take(r)
		}
		if err != nil {
			return err
		}
		w.wake()
	}
}

// receive reads a request. A watch begins when the index has reached its start revision.
func (w *watching) receive(ctx context.Context) (*pb.WatchRequest, error) {
	r, err := w.stream.Recv()
	if err != nil {
		return nil, err
	}
	if err := w.g.checkMayWatch(w.c); err != nil {
		return nil, err // the client reconnects to another netmaster, with all its watches
	}
	if err := w.c.budget.spend(ctx); err != nil {
		return nil, err
	}
	if create := r.GetCreateRequest(); create != nil && create.StartRevision > 1 {
		return r, w.g.waitForRevision(ctx, create.StartRevision-1)
	}
	return r, nil
}

// take creates or cancels a watch.
func (w *watching) take(r *pb.WatchRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
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
	return nil // progress notifications need no request
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
		return w.send(&pb.WatchResponse{
			WatchId: clientv3.InvalidWatchID, Created: true, Canceled: true,
			CancelReason: status.Convert(refused).Message(),
		})
	}
	x := w.g.index
	x.mu.RLock()
	begun := &watch{
		key: key, end: end, since: r.StartRevision, next: r.StartRevision, lost: x.lossesOf(w.c.host, time.Now()).times,
		latest: math.MaxInt64, era: x.era, progress: r.ProgressNotify, begun: time.Now(), told: time.Now(),
	}
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

// wake starts sending what is new. The caller holds the lock of streams, or is the stream's own goroutine.
func (w *watching) wake() {
	if w.wanted.Add(1) == 1 {
		w.telling.Go(func() {
			for more := true; more; {
				wanted := w.wanted.Load()
				w.sendNews(time.Now())
				more = !w.wanted.CompareAndSwap(wanted, 0)
			}
		})
	}
}

// sendNews sends what has changed since the last message.
func (w *watching) sendNews(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for messages := w.collect(now); len(messages) > 0; messages = w.collect(now) {
		for _, m := range messages {
			if m.Canceled {
				w.drop(m.WatchId)
			}
			if w.send(m) != nil { // the stream has ended
				return
			}
		}
	}
}

// collect returns the next message of each watch that has one.
func (w *watching) collect(now time.Time) (messages []*pb.WatchResponse) {
	deaf := w.g.checkMayWatch(w.c)
	x := w.g.index
	x.mu.RLock()
	defer x.mu.RUnlock()
	for _, one := range w.watches {
		x.sighted.date(one)
		var m *pb.WatchResponse
		switch {
		case deaf != nil:
			m = ended(one, deaf)
		case one.era != x.era:
			m = ended(one, unavailable("the store went back or is another one"))
		default:
			m = x.message(w.c.host, one, now)
		}
		if m != nil {
			one.told = now
			messages = append(messages, m)
		}
	}
	return messages
}

// ended ends a watch that cannot continue. Its client has to create another one.
func ended(w *watch, err error) *pb.WatchResponse {
	return &pb.WatchResponse{WatchId: w.id, Canceled: true, CancelReason: status.Convert(err).Message()}
}

// startOver makes a client list again, whatever revision it has.
const startOver = math.MaxInt64 - 1

// message returns the next message of a watch; nil: none. The caller holds the lock.
func (x *index) message(host string, w *watch, now time.Time) *pb.WatchResponse {
	if isFiltered(w.key) {
		switch lost := x.lossesOf(host, now); {
		case w.lost != lost.times || x.isDue(host, w):
			return compacted(w, startOver)
		case w.since <= lost.at: // it may have listed before
			return compacted(w, lost.at+1)
		}
		if at := x.lastAdmission(host, w.listing()); at != 0 {
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
	if len(events) == 0 && !(w.progress && now.Sub(w.told) >= progressTime) {
		return nil
	}
	return &pb.WatchResponse{WatchId: w.id, Events: events, Header: &pb.ResponseHeader{Revision: upTo}}
}

// compacted ends a watch as compacted; its client has to list again unless it has a later revision.
func compacted(w *watch, rev int64) *pb.WatchResponse {
	return &pb.WatchResponse{
		WatchId: w.id, Canceled: true, CompactRevision: rev,
		CancelReason: "etcdserver: mvcc: required revision has been compacted",
	}
}

// eventFor returns a change as a watch sees it; nil: it does not.
// A record that the node may not see any more appears as deleted.
func (x *index) eventFor(host string, w *watch, c change) *mvccpb.Event {
	key := string(c.event.Kv.Key)
	if key != w.key && (key < w.key || key >= w.end) {
		return nil
	}
	if x.sees(host, c.after, w.listing()) {
		if x.withholds(host, key, c.event.Kv.Value) {
			return nil
		}
		if shown, differs := x.seenBy(host, key, c.event.Kv.Value); differs {
			old := c.event.Kv
			return &mvccpb.Event{Type: c.event.Type, Kv: &mvccpb.KeyValue{Key: old.Key, Value: shown, ModRevision: old.ModRevision, CreateRevision: old.CreateRevision}}
		}
		return c.event
	}
	if !x.sees(host, c.before, w.listing()) {
		return nil
	}
	return &mvccpb.Event{Type: mvccpb.Event_DELETE, Kv: &mvccpb.KeyValue{Key: c.event.Kv.Key, ModRevision: c.rev}}
}

// send sends a message with a time limit; a node that does not receive it in time is disconnected.
func (w *watching) send(m *pb.WatchResponse) error {
	if m.Header == nil {
		m.Header = &pb.ResponseHeader{}
	}
	late := time.AfterFunc(sendTime, func() {
		if w.c.budget.shouldLog(time.Now()) {
			w.g.log.WithField("node", w.c.host).Warnf("it does not take what its watches tell within %s: the connection ends", sendTime)
		}
		w.c.cut()
	})
	defer late.Stop()
	return w.stream.Send(m)
}
