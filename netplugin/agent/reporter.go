package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// reportBatch limits the keys of one transaction, and its conditions: one for each key, and one more. etcd
// allows 128 of each, and a gate adds conditions of its own.
const reportBatch = 50

// summaryEvery is the minimum interval between writes of the node's summary. It lists all endpoints of the
// node, so writing it for each change would cost what the node has, not what has changed.
const summaryEvery = 5 * time.Second

// store is the part of the database that the reporter uses.
type store interface {
	Get(ctx context.Context, key string) (objdb.KV, error)
	Txn(ctx context.Context, t objdb.Txn) (rev int64, ok bool, err error)
}

// reporter keeps the operational records of this node equal to its endpoints. It is level-triggered: it compares the
// wanted records with those that it knows to be in the store, so a repeated, late or lost trigger does no harm.
//
// It reads only its own records. It finds those of an earlier run through the summary. A record written after
// the last summary belongs to an endpoint that is present, that a container holds although the store has lost
// it, or that a pending deletion names.
type reporter struct {
	store   store
	host    string
	loaded  bool
	written map[string]mastercfg.OperEndpointState // records that the store has
	doubt   map[string]struct{}                    // ids of records that the store may have

	summary   kept      // as in the store
	summaryAt time.Time // when it was last written
	open      bool      // a transaction about endpoints had no answer, and may be executed later

	enforced   kept // the enforced epoch of policies, as in the store
	unsure     bool // the store may have another value
	enforcedAt time.Time
}

// load reads, once, what this node reported in an earlier run.
func (r *reporter) load(ctx context.Context) error {
	if r.loaded {
		return nil
	}
	if r.written == nil {
		r.written, r.doubt = make(map[string]mastercfg.OperEndpointState), make(map[string]struct{})
		r.summary.key, r.enforced.key = mastercfg.OvsDriverPrefix+r.host, mastercfg.K8sEnforcedKey(r.host)
	}
	if err := r.loadEnforced(ctx); err != nil {
		return err
	}
	if err := r.summary.readStored(ctx, r.store); err != nil {
		return err
	}
	var summary mastercfg.OvsDriverOperState
	if r.summary.value != nil && json.Unmarshal(r.summary.value, &summary) == nil { // an unreadable one is replaced
		for id := range summary.LocalEpInfo {
			r.doubt[id] = struct{}{}
		}
	}
	r.loaded = true
	return nil
}

// forget marks all written records as uncertain: the store may have lost them.
func (r *reporter) forget() {
	for id := range r.written {
		r.doubt[id] = struct{}{}
	}
	clear(r.written)
	r.loaded = false
}

// reconcile makes the endpoint records in the store equal to the wanted ones. Each transaction compares the summary's
// revision. After an unanswered transaction the summary is rewritten, and a late execution has no effect from then on.
// So the summary is written before the first record. Without a summary, records are only deleted, and none are wanted.
func (r *reporter) reconcile(ctx context.Context, want operational, now time.Time) error {
	if r.summary.rev == 0 && len(want.endpoints) > 0 {
		if _, err := r.reportSummary(ctx, want.summary, now); err != nil {
			return err
		}
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if err := r.resolve(ctx, want); err != nil {
		return err
	}
	var changed []string
	for id, record := range want.endpoints {
		if have, there := r.written[id]; !there || have != record {
			changed = append(changed, id)
		}
	}
	for id := range r.written {
		if _, stays := want.endpoints[id]; !stays {
			changed = append(changed, id)
		}
	}
	for id := range r.doubt {
		changed = append(changed, id)
	}
	slices.Sort(changed)
	for batch := range slices.Chunk(slices.Compact(changed), reportBatch-1) {
		ok, err := r.commit(ctx, want, batch)
		if err == nil && !ok {
			err = r.commitEach(ctx, want, batch)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle makes a late execution of an unanswered transaction impossible, by rewriting the summary.
func (r *reporter) settle(ctx context.Context) error {
	if r.open && r.summary.rev != 0 {
		if err := r.summary.replace(ctx, r.store, r.summary.value); err != nil {
			r.loaded = false
			return err
		}
	}
	r.open = false
	return nil
}

// resolve reads the wanted records that the store may already have.
func (r *reporter) resolve(ctx context.Context, want operational) error {
	for id := range r.doubt {
		if _, wanted := want.endpoints[id]; !wanted {
			continue // it will be deleted, whether it exists or not
		}
		kv, err := r.store.Get(ctx, mastercfg.OperEndpointPrefix+id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		var record mastercfg.OperEndpointState
		if kv.Value != nil && json.Unmarshal(kv.Value, &record) == nil {
			r.written[id] = record
		}
		delete(r.doubt, id)
	}
	return nil
}

// commit writes or deletes the records of some endpoints. Its guards on the endpoints prevent a record for an
// endpoint that netmaster has deleted meanwhile.
func (r *reporter) commit(ctx context.Context, want operational, ids []string) (ok bool, err error) {
	txn := objdb.Txn{If: []objdb.Guard{objdb.AtRevision(r.summary.key, r.summary.rev)}}
	for _, id := range ids {
		record, stays := want.endpoints[id]
		if !stays {
			txn.Deletes = append(txn.Deletes, mastercfg.OperEndpointPrefix+id)
			continue
		}
		txn.If = append(txn.If, objdb.Present(mastercfg.EndpointPrefix+id))
		value, err := json.Marshal(record)
		if err != nil {
			return false, fmt.Errorf("report of endpoint %s: %w", id, err)
		}
		txn.Puts = append(txn.Puts, objdb.KV{Key: mastercfg.OperEndpointPrefix + id, Value: value})
	}
	_, ok, err = r.store.Txn(ctx, txn)
	r.open = r.open || err != nil
	for _, id := range ids {
		switch record, stays := want.endpoints[id]; {
		case err != nil:
			r.doubt[id] = struct{}{}
		case ok && stays:
			r.written[id] = record
		case ok:
			delete(r.written, id)
			delete(r.doubt, id)
		}
	}
	return ok, err
}

// commitEach writes a refused batch one by one, so that an endpoint
// missing in the store does not block the reports of others.
func (r *reporter) commitEach(ctx context.Context, want operational, ids []string) error {
	var refused error
	for _, id := range ids {
		ok, err := r.commit(ctx, want, []string{id})
		if err != nil {
			return err
		}
		if !ok {
			refused = fault.New(fault.Conflict, "endpoint %s is not in the store any more, or the node's summary is another one", id)
		}
	}
	if refused == nil {
		return nil
	}
	if err := r.summary.readStored(ctx, r.store); err != nil {
		return err
	}
	return refused
}

// reportSummary writes the node's summary if it has changed and is due; the first and the last summary are
// always due. It returns the time until it is due; 0: the store is up to date.
func (r *reporter) reportSummary(ctx context.Context, want mastercfg.OvsDriverOperState, now time.Time) (time.Duration, error) {
	var value []byte
	if len(want.LocalEpInfo) > 0 {
		var err error
		if value, err = json.Marshal(want); err != nil {
			return 0, fmt.Errorf("record %s: %w", r.summary.key, err)
		}
	}
	if bytes.Equal(value, r.summary.value) {
		return 0, nil
	}
	if rest := summaryEvery - now.Sub(r.summaryAt); rest > 0 && value != nil && r.summary.rev != 0 {
		return rest, nil
	}
	if err := r.summary.replace(ctx, r.store, value); err != nil {
		r.loaded = false // the store has either of the two
		return 0, err
	}
	r.summaryAt = now
	return 0, nil
}
