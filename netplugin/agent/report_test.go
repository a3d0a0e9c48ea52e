package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// memory is a store that accepts every transaction, or refuses the next ones.
type memory struct {
	kvs      map[string]objdb.KV
	gone     map[string]bool // reports whose endpoint is not in the store
	revision int64
	refuse   []error // per transaction; nil: guards do not hold
	txns     []objdb.Txn
	gets     int
}

func newMemory() *memory { return &memory{kvs: map[string]objdb.KV{}} }

func (m *memory) put(key string, value []byte) {
	m.revision++
	m.kvs[key] = objdb.KV{Key: key, Value: value, ModRevision: m.revision}
}

func (m *memory) Get(_ context.Context, key string) (objdb.KV, error) {
	m.gets++
	kv, there := m.kvs[key]
	if !there {
		return kv, fault.New(fault.NotFound, "key not found: %s", key)
	}
	return kv, nil
}

func (m *memory) Txn(_ context.Context, t objdb.Txn) (int64, bool, error) {
	m.txns = append(m.txns, t)
	if len(m.refuse) > 0 {
		err := m.refuse[0]
		m.refuse = m.refuse[1:]
		return 0, false, err
	}
	for _, kv := range t.Puts {
		if m.gone[kv.Key] {
			return 0, false, nil
		}
	}
	for _, kv := range t.Puts {
		m.put(kv.Key, kv.Value)
	}
	for _, key := range t.Deletes {
		delete(m.kvs, key)
	}
	return m.revision, true, nil
}

// reportOf returns the report of n local endpoints.
func reportOf(n int) operational {
	o := operational{endpoints: map[string]mastercfg.OperEndpointState{}, summary: mastercfg.OvsDriverOperState{ID: me, LocalEpInfo: map[string]mastercfg.LocalEpInfo{}}}
	for i := range n {
		id := fmt.Sprintf("web.blue-%03d", i)
		o.endpoints[id] = mastercfg.OperEndpointState{ID: id, HomingHost: me}
		o.summary.LocalEpInfo[id] = mastercfg.LocalEpInfo{OvsPortName: fmt.Sprint("vvport", i)}
	}
	return o
}

func newReporter(m *memory) *reporter { return &reporter{store: m, host: me} }

// write does what the loop does for one trigger.
func (r *reporter) write(t *testing.T, want operational, now time.Time) error {
	t.Helper()
	if err := r.load(t.Context()); err != nil {
		return err
	}
	if err := r.reconcile(t.Context(), want, now); err != nil {
		return err
	}
	_, err := r.reportSummary(t.Context(), want.summary, now)
	return err
}

func TestReportIsWrittenOnceInTransactionsOfBoundedSize(t *testing.T) {
	m := newMemory()
	r := newReporter(m)
	for range 2 {
		if err := r.write(t, reportOf(120), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.txns) != 4 || len(m.kvs) != 121 {
		t.Errorf("%d transactions, %d keys; want 4 and 121", len(m.txns), len(m.kvs))
	}
	for _, txn := range m.txns {
		if len(txn.Puts) > reportBatch || len(txn.If) > reportBatch {
			t.Errorf("transaction of %d puts and %d guards", len(txn.Puts), len(txn.If))
		}
	}
	if err := r.write(t, reportOf(0), time.Now()); err != nil {
		t.Fatal(err)
	}
	if len(m.kvs) != 0 {
		t.Errorf("%d keys left", len(m.kvs))
	}
}

func TestReportOfOneEndpointCostsOneRecordWhateverTheNodeHas(t *testing.T) {
	m := newMemory()
	r, start := newReporter(m), time.Now()
	if err := r.write(t, reportOf(200), start); err != nil {
		t.Fatal(err)
	}
	m.txns, m.gets = nil, 0
	for n := 201; n <= 220; n++ {
		if err := r.write(t, reportOf(n), start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	for _, txn := range m.txns {
		if len(txn.Puts) != 1 {
			t.Errorf("one endpoint more wrote %d records", len(txn.Puts))
		}
	}
	if len(m.txns) != 20 || m.gets != 0 {
		t.Errorf("%d transactions and %d reads for 20 endpoints", len(m.txns), m.gets)
	}
	if err := r.write(t, reportOf(220), start.Add(summaryEvery)); err != nil {
		t.Fatal(err)
	}
	var summary mastercfg.OvsDriverOperState
	if err := json.Unmarshal(m.kvs[mastercfg.OvsDriverPrefix+me].Value, &summary); err != nil || len(summary.LocalEpInfo) != 220 {
		t.Errorf("summary lists %d endpoints (%v)", len(summary.LocalEpInfo), err)
	}
}

func TestReportAfterADoubtfulOutcomeOrAnOutdatedOneReadsOnlyItsOwnRecords(t *testing.T) {
	for _, outcome := range []error{nil, errors.New("connection lost")} {
		m := newMemory()
		r := newReporter(m)
		if err := r.write(t, reportOf(1), time.Now()); err != nil {
			t.Fatal(err)
		}
		m.refuse = []error{outcome, outcome}
		if err := r.write(t, reportOf(2), time.Now()); err == nil {
			t.Fatal("no error")
		}
		m.refuse = nil
		if outcome != nil { // our own lost transaction was applied
			value, err := json.Marshal(reportOf(2).endpoints["web.blue-001"])
			if err != nil {
				t.Fatal(err)
			}
			m.put(mastercfg.OperEndpointPrefix+"web.blue-001", value)
		}
		m.txns, m.gets = nil, 0
		if err := r.write(t, reportOf(2), time.Now()); err != nil {
			t.Fatal(err)
		}
		if m.gets > 1 || len(m.kvs) != 3 {
			t.Errorf("outcome %v: %d reads, keys %d", outcome, m.gets, len(m.kvs))
		}
	}
}

func TestEndpointThatIsGoneDoesNotKeepOthersFromBeingReported(t *testing.T) {
	m := newMemory()
	m.gone = map[string]bool{mastercfg.OperEndpointPrefix + "web.blue-001": true}
	r := newReporter(m)
	if err := r.write(t, reportOf(3), time.Now()); !fault.Is(err, fault.Conflict) {
		t.Errorf("one is gone: %v", err)
	}
	delete(m.kvs, mastercfg.OvsDriverPrefix+me)
	if len(m.kvs) != 2 {
		t.Errorf("%d records, want 2", len(m.kvs))
	}
}

func TestRecordsOfAnEarlierLifeAreFoundByTheSummary(t *testing.T) {
	m := newMemory()
	before := newReporter(m)
	if err := before.write(t, reportOf(3), time.Now()); err != nil {
		t.Fatal(err)
	}
	m.txns = nil
	if err := newReporter(m).write(t, reportOf(2), time.Now()); err != nil {
		t.Fatal(err)
	}
	if len(m.kvs) != 3 || len(m.txns) != 2 || len(m.txns[0].Puts) != 0 || len(m.txns[0].Deletes) != 1 {
		t.Errorf("%d keys, transactions %+v", len(m.kvs), m.txns)
	}
}

// A node's report says which of its bridges has an endpoint.
func TestAReportNamesTheKindOfBridge(t *testing.T) {
	n := newNode(t)
	n.cache.uplink = true
	n.put(vrfKey("blue"), `{"vrf":1}`).put(netKey("web.blue"), netValue("blue", "")).put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2")).
		put(netKey("lan.blue"), strings.Replace(netValue("blue", ""), "vxlan", "vlan", 1)).put(epKey("lan.blue-2"), epValue("lan.blue", me, "10.1.0.3"))
	said := n.cache.operational([]drivers.Port{{EndpointID: "web.blue-1", HostLink: "vvport1"}, {EndpointID: "lan.blue-2", HostLink: "vvport2"}}, n.cache.vtep).summary.LocalEpInfo
	if said["web.blue-1"].BridgeType != "vxlan" || said["lan.blue-2"].BridgeType != "vlan" {
		t.Errorf("reported %+v", said)
	}
}

// A record that the store refuses is logged once a minute, not on each attempt; the outage of the store is logged
// elsewhere.
func TestRecordsThatAreRefusedAreToldOf(t *testing.T) {
	for kind, want := range map[fault.Kind]int{fault.Denied: 1, fault.Conflict: 1, fault.Unavailable: 0} {
		log, told := testkit.Recorded()
		var what reporting
		for range 5 {
			what.failed(log, fault.New(kind, "record x: refused"))
		}
		if got := strings.Count(told.String(), "level=warning"); got != want {
			t.Errorf("%s: told %d times, want %d:\n%s", kind, got, want, told.String())
		}
	}
}
