package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

// reportBatch bounds the keys of one transaction, and its conditions: one for each key, and one more. etcd allows 128 of either,
// and a gate adds its own conditions.
const reportBatch = 50

// summaryEvery is how often the node's summary is written at most. It lists
// all endpoints of the node, so writing it for each of them would cost what the
// node has, not what has changed.
const summaryEvery = 5 * time.Second

// store is what the reporter needs of the database.
type store interface {
	Get(ctx context.Context, key string) (objdb.KV, error)
	Txn(ctx context.Context, t objdb.Txn) (rev int64, ok bool, err error)
}

// reporter keeps the operational records of this node equal to its endpoints.
// It works on levels: the records that should be there are compared with those
// it knows to be there, so a repeated, late or lost trigger does no harm.
//
// It reads its own records only. Those of an earlier life are found by the
// summary; one that was written after the last summary belongs to an endpoint
// that is here, that a container holds although the store has lost it, or that
// has a deletion to come, which names it.
type reporter struct {
	store   store
	host    string
	loaded  bool
	written map[string]mastercfg.OperEndpointState // what the store has
	doubt   map[string]struct{}                    // ids of records that the store may have

	summary   kept      // as the store has it
	summaryAt time.Time // when it was last written
	open      bool      // a transaction about endpoints had no answer, and may happen later

	enforced   kept // the epoch of policies, likewise
	unsure     bool // the store may have something else
	enforcedAt time.Time
}

// kept is the value of one record as the store has it, and at which revision it was written; nil: absent. Who replaces it
// compares that: what had no answer before may happen later, and does nothing then. Only what was to create the record may
// come after it was deleted.
type kept struct {
	key   string
	value []byte
	rev   int64
}

// readStored reads the reported records from the store.
func (k *kept) readStored(ctx context.Context, from store) error {
	kv, err := from.Get(ctx, k.key)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	k.value, k.rev = kv.Value, kv.ModRevision
	return nil
}

// replace puts a value in its place, or deletes it; after an error the store may have either.
func (k *kept) replace(ctx context.Context, in store, value []byte) error {
	txn := objdb.Txn{If: []objdb.Guard{objdb.AtRevision(k.key, k.rev)}}
	if value == nil {
		txn.Deletes = []string{k.key}
	} else {
		txn.Puts = []objdb.KV{{Key: k.key, Value: value}}
	}
	rev, ok, err := in.Txn(ctx, txn)
	switch {
	case err != nil:
		return err
	case !ok:
		return fault.New(fault.Conflict, "record %s: is not the one that was read any more", k.key)
	case value == nil:
		rev = 0
	}
	k.value, k.rev = value, rev
	return nil
}

// operational is what this node has to report.
type operational struct {
	endpoints map[string]mastercfg.OperEndpointState
	summary   mastercfg.OvsDriverOperState
}

// reporting is one of the things that the reporter does: when something has changed, and when the rest is due.
type reporting struct {
	wake notify.Signal
	due  *time.Timer
	once func(context.Context, *reporter) (next time.Duration, err error) // next: when the rest is due; 0: all is written

	trouble logging.Trouble
}

// failed tells of records that are not written. Who is away is told of where that is noticed.
func (what *reporting) failed(log *logrus.Entry, err error) {
	level := logrus.DebugLevel
	if !fault.Is(err, fault.Unavailable) && what.trouble.IsNews(err, time.Now()) {
		level = logrus.WarnLevel
	}
	log.WithError(err).Log(level, "operational records not written, trying again")
}

// reportLoop writes the records of endpoints with a port, off the attach path, and the epoch of policies. That one changes
// with every policy of the cluster, and costs the same whatever the node has.
func (a *Agent) reportLoop(ctx context.Context) error {
	r := reporter{store: a.cfg.DB, host: a.cfg.HostLabel}
	wait := retry.NewPacer(100*time.Millisecond, 30*time.Second)
	if err := a.inSync.await(ctx); err != nil {
		return err
	}
	endpoints := &reporting{wake: a.report, due: time.NewTimer(0), once: a.reportOnce}
	epoch := &reporting{wake: a.tell, due: time.NewTimer(0), once: a.tellEpoch}
	defer endpoints.due.Stop()
	defer epoch.due.Stop()
	for {
		what := endpoints
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-endpoints.wake:
		case <-endpoints.due.C:
		case <-epoch.wake:
			what = epoch
		case <-epoch.due.C:
			what = epoch
		}
		next, err := what.once(ctx, &r)
		if err == nil {
			wait.Reset()
			what.trouble.Over()
			if next > 0 {
				what.due.Reset(next)
			}
			continue
		}
		what.failed(a.log, err)
		what.wake.Send()
		wait.Sleep(ctx)
	}
}

// reportOnce writes of endpoints what differs.
func (a *Agent) reportOnce(ctx context.Context, r *reporter) (next time.Duration, err error) {
	if !a.cfg.Driver.Status().Connected {
		return 0, fault.New(fault.Unavailable, "switch is away, its ports are not known")
	}
	a.mu.Lock()
	if a.held.rewound {
		a.held.rewound = false
		r.forget()
		a.tell.Send()
	}
	a.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return 0, err
	}
	ports := a.cfg.Driver.Ports()
	a.mu.Lock()
	want := a.cache.operational(ports, a.cfg.VTEP)
	for id := range a.held.attached {
		if _, absent := a.held.absent[mastercfg.EndpointPrefix+id]; absent {
			want.remove(id)
		}
	}
	for _, id := range a.held.unreported {
		r.doubt[id] = struct{}{}
	}
	a.held.unreported = nil
	a.mu.Unlock()
	now := time.Now()
	if err := r.reconcile(ctx, want, now); err != nil {
		return 0, err
	}
	return r.reportSummary(ctx, want.summary, now)
}

// tellEpoch writes which epoch of policies the switch has, and which ports of the node do not serve as they should.
func (a *Agent) tellEpoch(ctx context.Context, r *reporter) (next time.Duration, err error) {
	if err := r.load(ctx); err != nil {
		return 0, err
	}
	enforced := a.enforced.Load()
	if enforced == nil {
		return 0, nil // this is called when it is known
	}
	told := *enforced
	told.Troubles = a.reportedTroubles()
	return r.reportEnforced(ctx, told, time.Now())
}

// operational describes the local endpoints that have a port.
func (c *cache) operational(ports []drivers.Port, vtep netip.Addr) operational {
	o := operational{
		endpoints: make(map[string]mastercfg.OperEndpointState),
		summary:   mastercfg.OvsDriverOperState{ID: c.host, LocalEpInfo: make(map[string]mastercfg.LocalEpInfo)},
	}
	for _, port := range ports {
		e, known := c.endpoints[port.EndpointID]
		if !known || e.host != c.host {
			continue
		}
		name := strings.TrimPrefix(port.HostLink, "v") // vvportN's other end is vportN
		o.endpoints[port.EndpointID] = mastercfg.OperEndpointState{
			ID: port.EndpointID, NetID: e.record.NetID, EndpointID: e.record.EndpointID,
			ServiceName: e.record.ServiceName, IPAddress: e.record.IPAddress, IPv6Address: e.record.IPv6Address,
			MacAddress: e.record.MacAddress, HomingHost: e.host, IntfName: e.record.IntfName,
			PortName: name, VtepIP: addrText(vtep),
		}
		o.summary.LocalEpInfo[port.EndpointID] = mastercfg.LocalEpInfo{
			OvsPortName: port.HostLink, EpgKey: e.record.EndpointGroupKey, BridgeType: c.networks[e.record.NetID].part.Encap.String(),
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "vport")); err == nil {
			o.summary.CurrPortNum = max(o.summary.CurrPortNum, n)
		}
	}
	return o
}

func addrText(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}

// remove takes an endpoint out of the report.
func (o *operational) remove(id string) {
	delete(o.endpoints, id)
	delete(o.summary.LocalEpInfo, id)
}

// load reads, once, what this node has reported in an earlier life.
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

// forget doubts everything: the store may have lost it.
func (r *reporter) forget() {
	for id := range r.written {
		r.doubt[id] = struct{}{}
	}
	clear(r.written)
	r.loaded = false
}

// reconcile makes the store's records of endpoints those wanted. Each transaction compares the summary's revision: when one
// had no answer the summary is written again, and what may happen late does nothing from then on. So there is a summary
// before there are records. Where there is none, records are deleted only, and none is wanted.
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

// settle ends the time in which a transaction without an answer may happen.
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

// resolve reads the wanted records that the store may have already.
func (r *reporter) resolve(ctx context.Context, want operational) error {
	for id := range r.doubt {
		if _, wanted := want.endpoints[id]; !wanted {
			continue // it will be deleted, there or not
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

// commit writes or deletes some endpoints' records. The other guards keep a record
// from appearing for an endpoint that netmaster has deleted meanwhile.
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

// commitEach writes a refused batch one by one, so that an endpoint that is
// gone from the store does not keep the others from being reported.
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

// reportSummary writes the node's summary if it has changed and is due; the first and the last one are always due. It returns the
// time until it is due; 0: the store has it.
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
		r.loaded = false // nobody knows which one the store has
		return 0, err
	}
	r.summaryAt = now
	return 0, nil
}
