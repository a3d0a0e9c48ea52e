package mirror

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb"
)

// errGap means that the store no longer has the revisions a watch asked for.
var errGap = errors.New("watch cannot resume")

// catchUp lists the prefix, unless the mirror is in step already, and delivers
// the first time a snapshot, later the difference to what the receiver has.
func (m *Mirror) catchUp(ctx context.Context) error {
	if m.Synced() {
		return nil
	}
	kvs, rev, err := m.db.List(ctx, m.prefix)
	if err != nil {
		return err
	}
	m.supersede(kvs, rev)
	return nil
}

// supersede replaces the mirror's state by a listing at rev.
func (m *Mirror) supersede(kvs []objdb.KV, rev int64) {
	batch := Batch{Revision: rev, Snapshot: m.held == nil}
	now := make(map[string]objdb.KV, len(kvs))
	for _, kv := range kvs {
		now[kv.Key] = kv
		had, ok := m.held[kv.Key]
		if !ok || had.ModRevision != kv.ModRevision {
			batch.Events = append(batch.Events, Event{Key: kv.Key, Value: kv.Value, Prev: had.Value, ModRevision: kv.ModRevision})
		}
	}
	for key, had := range m.held {
		if _, ok := now[key]; !ok {
			batch.Events = append(batch.Events, Event{Key: key, Prev: had.Value, ModRevision: rev})
		}
	}
	m.held = now
	if batch.Snapshot || len(batch.Events) > 0 {
		m.deliver(batch)
	}
	m.reached(rev)
}

// watch delivers what happens after the mirror's revision until the watch
// breaks. The client resumes it over reconnects; what is returned here needs a
// new watch, or, for errGap, a new listing.
func (m *Mirror) watch(ctx context.Context, progress func()) error {
	client, err := m.db.Client()
	if err != nil {
		return err
	}
	// Its own context frees the watch in the store when this function returns.
	// A member without a leader must refuse, or it would leave us without events.
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	responses := client.Watch(ctx, m.prefix, clientv3.WithPrefix(), clientv3.WithRev(m.Revision()+1),
		clientv3.WithProgressNotify(), clientv3.WithFragment())
	for {
		select {
		case <-m.audit:
			if err := m.compare(ctx); err != nil {
				m.log.WithError(err).Debug("comparing with the store failed")
			}
		case resp, open := <-responses:
			switch {
			case !open:
				return errors.New("watch ended")
			case resp.CompactRevision != 0:
				return fmt.Errorf("%w after revision %d: compacted up to %d", errGap, m.Revision(), resp.CompactRevision)
			case resp.Err() != nil:
				return resp.Err()
			case resp.IsProgressNotify():
				m.reached(resp.Header.Revision)
			default:
				m.apply(resp.Events)
			}
			progress()
		}
	}
}

// apply delivers events, those of one revision together.
func (m *Mirror) apply(events []*clientv3.Event) {
	for len(events) > 0 {
		rev := events[0].Kv.ModRevision
		batch := Batch{Revision: rev}
		for len(events) > 0 && events[0].Kv.ModRevision == rev {
			if e, fresh := m.absorb(events[0]); fresh {
				batch.Events = append(batch.Events, e)
			}
			events = events[1:]
		}
		if len(batch.Events) > 0 {
			m.deliver(batch)
		}
		m.reached(rev)
	}
}

// absorb brings one event into the mirror's state; false if it is no news.
func (m *Mirror) absorb(ev *clientv3.Event) (Event, bool) {
	kv := objdb.KVOf(ev.Kv)
	had, ok := m.held[kv.Key]
	if ok && kv.ModRevision <= had.ModRevision {
		return Event{}, false
	}
	e := Event{Key: kv.Key, Prev: had.Value, ModRevision: kv.ModRevision}
	if ev.Type == clientv3.EventTypeDelete {
		delete(m.held, kv.Key)
		return e, ok
	}
	e.Value = kv.Value
	m.held[kv.Key] = kv
	return e, true
}

// compare asks the store whether anything below the prefix differs from what
// the receiver has. If not, the mirror is in step with the revision of the
// answer. Progress requests would be cheaper, but servers before 3.4.25 and
// 3.5.8 answer them ahead of events that are still queued.
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
