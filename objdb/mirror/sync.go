package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

var (
	// errGap means that the store has compacted the start revision of a watch, or
	// that a watch has left out events.
	errGap = errors.New("watch cannot resume")
	// errUncertain means that the store may have been restored to an older revision, or replaced.
	errUncertain = errors.New("the store's standing has changed")
)

// catchUp lists the prefix, unless the receiver has a listing of this history
// already. It delivers the first listing as a snapshot, a later one as the difference to
// the receiver's state.
func (m *Mirror) catchUp(ctx context.Context, history int) error {
	m.mu.Lock()
	another := m.history != history
	inStep := m.synced && !another
	m.mu.Unlock()
	if inStep {
		return nil
	}
	kvs, rev, err := m.db.List(ctx, m.prefix)
	if err != nil {
		return err
	}
	kvs = slices.DeleteFunc(kvs, func(kv objdb.KV) bool { return !m.wants(kv.Key) })
	if m.db.Standing().History != history {
		return errUncertain // it may have changed during the listing
	}
	m.supersede(kvs, rev, another)
	m.listed(history, rev)
	return nil
}

// supersede delivers the difference between a listing at rev and the receiver's state. Within one
// history, a key with the same revision has the same value; if the history is another one, all keys are delivered again.
func (m *Mirror) supersede(kvs []objdb.KV, rev int64, another bool) {
	batch := Batch{Revision: rev, Snapshot: m.held == nil, Another: another && m.held != nil}
	before := m.held
	m.hold(kvs)
	for _, kv := range kvs {
		if had, ok := before[kv.Key]; !ok || another || had != kv.ModRevision {
			batch.Events = append(batch.Events, Event{Key: kv.Key, Value: kv.Value, ModRevision: kv.ModRevision, CreateRevision: kv.CreateRevision})
		}
	}
	for key := range before {
		if _, ok := m.held[key]; !ok {
			batch.Events = append(batch.Events, Event{Key: key, ModRevision: rev})
		}
	}
	if batch.Snapshot || batch.Another || len(batch.Events) > 0 {
		m.deliver(batch)
	}
}

// hold records a listing as the receiver's state.
func (m *Mirror) hold(kvs []objdb.KV) {
	m.held, m.newest, m.forgotten = make(map[string]int64, len(kvs)), event{}, 0
	for _, kv := range kvs {
		m.held[kv.Key] = kv.ModRevision
		if kv.ModRevision > m.newest.rev {
			m.newest = event{key: kv.Key, rev: kv.ModRevision}
		}
	}
}

// watch delivers events after the mirror's revision until the watch
// breaks or the standing of the store changes (errUncertain). The
// etcd client resumes the watch when one of several members fails. After an error the caller
// needs a new watch or, after errGap, a new listing.
//
// The watch does not begin after the mirror's revision, but at the revision of the latest event that
// the receiver has, or at the oldest later one that is not compacted: if the store was restored to a
// revision in between, it may have other events there. So it may return events from before
// a listing; those are not delivered (past).
func (m *Mirror) watch(ctx context.Context, standing objdb.Standing, progress func()) error {
	client, err := m.db.Client(ctx)
	if err != nil {
		return err
	}
	// The context of its own cancels the watch in the store when this function returns.
	// RequireLeader: otherwise a partitioned member would keep the watch open without events.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	from := m.Revision() + 1
	if m.newest.rev != 0 {
		from = min(from, max(m.newest.rev, m.forgotten))
	}
	// Without WithFragment, which costs etcd quadratic time (see Feed.watch).
	responses := client.Watch(ctx, m.prefix, clientv3.WithPrefix(), clientv3.WithRev(from),
		clientv3.WithProgressNotify())
	for {
		select {
		case <-standing.Changed:
			return errUncertain
		case <-m.audit:
			if err := m.compare(ctx); err != nil {
				m.log.WithError(err).Debug("comparing with the store failed")
			}
		case resp, open := <-responses:
			if open && resp.Err() == nil {
				m.db.Heard(standing.History, resp.Header.GetRevision())
			}
			if !open {
				return errors.New("watch ended")
			}
			if err := m.receive(ctx, resp, from); err != nil {
				return err
			}
			progress()
		}
	}
}

// receive processes one response of a watch that began at revision from.
func (m *Mirror) receive(ctx context.Context, resp clientv3.WatchResponse, from int64) error {
	switch {
	case resp.CompactRevision > from && resp.CompactRevision <= m.Revision()+1:
		m.forgotten = resp.CompactRevision
		return errUncertain
	case resp.CompactRevision != 0:
		return fmt.Errorf("%w after revision %d: compacted up to %d", errGap, m.Revision(), resp.CompactRevision)
	case objdb.IsUnreadable(resp.Err()): // later events may be readable
		return fmt.Errorf("%w after revision %d: %w", errGap, m.Revision(), resp.Err())
	case resp.Err() != nil:
		return resp.Err()
	case resp.IsProgressNotify():
		if err := m.verify(ctx, resp.Header.Revision); err != nil {
			return err
		}
		m.reached(resp.Header.Revision)
		return nil
	}
	past, err := m.past(ctx, resp.Events)
	if err != nil {
		return err
	}
	m.apply(resp.Events, past)
	return nil
}

// confirm checks that the latest event that the receiver has is in the store's present history. Without that, it would not
// notice a store that was restored to an older revision and has reached the mirror's
// revision again.
func (m *Mirror) confirm(ctx context.Context, history int) error {
	if m.newest.rev == 0 {
		return nil
	}
	kept, err := m.newest.happened(ctx, m.db)
	if err != nil || kept {
		return err
	}
	m.db.Refute(history)
	return errUncertain
}

// event identifies an event in a history: a key and the revision of its write or deletion.
type event struct {
	key     string
	rev     int64 // 0: none
	deleted bool
}

func eventOf(ev *clientv3.Event) event {
	return event{string(ev.Kv.Key), ev.Kv.ModRevision, ev.Type == clientv3.EventTypeDelete}
}

// happened reads whether the event is in the store's present history. If its revision is compacted, the event
// counts as present, unless the key's last write is older.
func (e event) happened(ctx context.Context, db *objdb.DB) (bool, error) {
	there, err := db.GetAt(ctx, e.key, e.rev)
	if e.deleted && fault.Is(err, fault.NotFound) {
		there, err = db.GetAt(ctx, e.key, e.rev-1)
		there.ModRevision = e.rev // it existed one revision before: the deletion is in the history
	}
	switch {
	case errors.Is(err, rpctypes.ErrCompacted):
		now, err := db.Get(ctx, e.key)
		if fault.Is(err, fault.NotFound) {
			return true, nil
		}
		return now.ModRevision >= e.rev, err
	case errors.Is(err, rpctypes.ErrFutureRev), fault.Is(err, fault.NotFound):
		return false, nil
	}
	return there.ModRevision == e.rev, err
}

// past returns the events that must not be delivered: events at or below the mirror's revision, of keys that neither the receiver
// nor the store has. They were written and deleted between the newest key of a listing and its revision; to deliver them would
// bring the receiver to a state before the listing. If a restored store has written one of the keys again,
// all events are delivered, since those of one revision belong together.
//
// It reads the store at most once: netmaster/gate limits the requests of a node.
func (m *Mirror) past(ctx context.Context, events []*clientv3.Event) (past map[*clientv3.Event]bool, err error) {
	passed := m.Revision()
	absent := map[string][]*clientv3.Event{} // events of keys that the receiver does not have
	for _, ev := range events {
		if key := string(ev.Kv.Key); ev.Kv.ModRevision <= passed && m.wants(key) && m.held[key] == 0 {
			absent[key] = append(absent[key], ev)
		}
	}
	past = map[*clientv3.Event]bool{}
	present := false // by these events, one of the keys exists
	for _, all := range absent {
		present = present || all[len(all)-1].Type != clientv3.EventTypeDelete
		for _, ev := range all {
			past[ev] = true
		}
	}
	if !present {
		return past, nil
	}
	there, err := written(ctx, m.db, m.prefix, events[0].Kv.ModRevision-1, 0)
	if err != nil {
		return nil, err
	}
	for _, kv := range there.Kvs {
		if absent[string(kv.Key)] != nil && kv.ModRevision <= passed {
			return nil, nil // written again by a restored store
		}
	}
	return past, nil
}

// apply delivers the events that are not in past, one batch for each revision.
func (m *Mirror) apply(events []*clientv3.Event, past map[*clientv3.Event]bool) {
	for len(events) > 0 {
		first := eventOf(events[0])
		batch := Batch{Revision: first.rev}
		for len(events) > 0 && events[0].Kv.ModRevision == first.rev {
			if !past[events[0]] && m.wants(string(events[0].Kv.Key)) {
				if e, fresh := m.absorb(events[0]); fresh {
					batch.Events = append(batch.Events, e)
				}
			}
			events = events[1:]
		}
		if len(batch.Events) > 0 {
			m.deliver(batch)
		}
		if m.newest.rev < first.rev {
			m.newest = first
		}
		m.reached(first.rev)
	}
}

func (m *Mirror) wants(key string) bool { return m.wanted == nil || m.wanted(key) }

// absorb applies one event to held; false if the receiver has it already.
func (m *Mirror) absorb(ev *clientv3.Event) (Event, bool) {
	kv := objdb.KVOf(ev.Kv)
	had, ok := m.held[kv.Key]
	if ok && kv.ModRevision <= had {
		return Event{}, false
	}
	e := Event{Key: kv.Key, ModRevision: kv.ModRevision}
	if ev.Type == clientv3.EventTypeDelete {
		delete(m.held, kv.Key)
		return e, ok
	}
	e.Value, e.CreateRevision = kv.Value, kv.CreateRevision
	m.held[kv.Key] = kv.ModRevision
	return e, true
}

// compare reads whether the prefix was changed since the mirror's revision. If not,
// the receiver has the state at the revision of the
// response. Progress requests would be cheaper, but servers before 3.4.25 and
// 3.5.8 answer them before events that are still queued.
func (m *Mirror) compare(ctx context.Context) error {
	known := m.Revision()
	resp, err := objdb.Call(ctx, m.db, "compare "+m.prefix, func(ctx context.Context, c *clientv3.Client) (*clientv3.GetResponse, error) {
		return c.Get(ctx, m.prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithMinModRev(known+1), clientv3.WithLimit(1))
	})
	if err != nil {
		return err
	}
	// The count ignores the revision filter: it is that of all keys present.
	if len(resp.Kvs) == 0 && resp.Count == int64(len(m.held)) {
		m.reached(resp.Header.Revision)
	}
	return nil
}
