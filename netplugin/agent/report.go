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

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// reportBatch bounds the keys of one transaction; etcd allows 128 entries.
const reportBatch = 50

// store is what the reporter needs of the database.
type store interface {
	List(ctx context.Context, prefix string) ([]objdb.KV, int64, error)
	Get(ctx context.Context, key string) (objdb.KV, error)
	Txn(ctx context.Context, t objdb.Txn) (rev int64, ok bool, err error)
}

// reporter keeps the operational records of this node equal to its endpoints.
// It too works on levels: the records that should be there are compared with
// those it knows to be there, so a repeated, late or lost trigger does no harm.
type reporter struct {
	store   store
	host    string
	loaded  bool // what follows is what the store has
	written map[string]mastercfg.OperEndpointState
	summary objdb.KV // the node's ovs-driver record; revision 0: absent
}

// operational is what this node has to report.
type operational struct {
	endpoints map[string]mastercfg.OperEndpointState
	summary   mastercfg.OvsDriverOperState
}

// reportLoop writes the records of endpoints with a port, off the attach path.
func (a *Agent) reportLoop(ctx context.Context) error {
	r := reporter{store: a.cfg.DB, host: a.cfg.HostLabel}
	wait := newBackoff(100*time.Millisecond, 30*time.Second)
	if err := a.inSync.await(ctx); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.report:
		}
		err := a.reportOnce(ctx, &r)
		if err == nil {
			wait.reset()
			continue
		}
		a.log.WithError(err).Debug("operational records not written, trying again")
		a.report.raise()
		if err := pause(ctx, wait.next()); err != nil {
			return err
		}
	}
}

func (a *Agent) reportOnce(ctx context.Context, r *reporter) error {
	if !a.cfg.Driver.Status().Connected {
		return fault.New(fault.Unavailable, "switch is away, its ports are not known")
	}
	ports := a.cfg.Driver.Ports()
	a.mu.Lock()
	want := a.cache.operational(ports, a.cfg.VTEP)
	a.mu.Unlock()
	return r.reconcile(ctx, want)
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
			OvsPortName: port.HostLink, EpgKey: e.record.EndpointGroupKey, BridgeType: "vxlan",
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

// reconcile makes the store's records those wanted.
func (r *reporter) reconcile(ctx context.Context, want operational) error {
	if !r.loaded {
		if err := r.load(ctx); err != nil {
			return err
		}
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
	slices.Sort(changed)
	for batch := range slices.Chunk(changed, reportBatch) {
		if err := r.commit(ctx, want, batch); err != nil {
			return err
		}
	}
	if len(changed) == 0 {
		return r.commit(ctx, want, nil)
	}
	return nil
}

// load reads what this node, perhaps in an earlier life, has reported.
func (r *reporter) load(ctx context.Context) error {
	kvs, _, err := r.store.List(ctx, mastercfg.OperEndpointPrefix)
	if err != nil {
		return err
	}
	r.written = make(map[string]mastercfg.OperEndpointState)
	for _, kv := range kvs {
		var record mastercfg.OperEndpointState
		if json.Unmarshal(kv.Value, &record) == nil && record.HomingHost == r.host {
			r.written[strings.TrimPrefix(kv.Key, mastercfg.OperEndpointPrefix)] = record
		}
	}
	key := mastercfg.OvsDriverPrefix + r.host
	r.summary, err = r.store.Get(ctx, key)
	if fault.Is(err, fault.NotFound) {
		r.summary, err = objdb.KV{Key: key}, nil
	}
	r.loaded = err == nil
	return err
}

// commit writes some endpoints' records together with the node's summary. The
// guards keep a record from appearing for an endpoint that netmaster has
// deleted meanwhile, and from overwriting what was not read.
func (r *reporter) commit(ctx context.Context, want operational, ids []string) error {
	var txn objdb.Txn
	for _, id := range ids {
		record, stays := want.endpoints[id]
		if !stays {
			txn.Deletes = append(txn.Deletes, mastercfg.OperEndpointPrefix+id)
			continue
		}
		txn.If = append(txn.If, objdb.Present(mastercfg.EndpointPrefix+id))
		if err := put(&txn, mastercfg.OperEndpointPrefix+id, record); err != nil {
			return err
		}
	}
	summary, err := json.Marshal(want.summary)
	if err != nil {
		return fmt.Errorf("record of %s: %w", r.summary.Key, err)
	}
	next := objdb.KV{Key: r.summary.Key, Value: summary}
	switch empty := len(want.summary.LocalEpInfo) == 0; {
	case empty && r.summary.ModRevision != 0:
		txn.Deletes, next.Value = append(txn.Deletes, next.Key), nil
	case !empty && !bytes.Equal(r.summary.Value, summary):
		txn.Puts = append(txn.Puts, next)
	default:
		next = r.summary
	}
	if len(txn.Puts)+len(txn.Deletes) == 0 {
		return nil
	}
	txn.If = append(txn.If, objdb.Unchanged(r.summary))
	r.loaded = false // until the outcome is known
	revision, ok, err := r.store.Txn(ctx, txn)
	if err != nil {
		return err
	}
	if !ok {
		return fault.New(fault.Conflict, "operational records of host %s changed meanwhile", r.host)
	}
	r.loaded = true
	r.note(want, ids, next, revision)
	return nil
}

// note remembers what a transaction has written.
func (r *reporter) note(want operational, ids []string, summary objdb.KV, revision int64) {
	for _, id := range ids {
		if record, stays := want.endpoints[id]; stays {
			r.written[id] = record
		} else {
			delete(r.written, id)
		}
	}
	switch {
	case summary.Value == nil:
		summary.ModRevision = 0
	case !bytes.Equal(summary.Value, r.summary.Value):
		summary.ModRevision = revision
	}
	r.summary = summary
}

func put(txn *objdb.Txn, key string, record any) error {
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("record of %s: %w", key, err)
	}
	txn.Puts = append(txn.Puts, objdb.KV{Key: key, Value: value})
	return nil
}
