package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// memory is a store that takes every transaction, or refuses the next ones.
type memory struct {
	kvs      map[string]objdb.KV
	revision int64
	refuse   []error // per transaction; nil: guards do not hold
	txns     []objdb.Txn
}

func (m *memory) List(_ context.Context, prefix string) ([]objdb.KV, int64, error) {
	var kvs []objdb.KV
	for key, kv := range m.kvs {
		if strings.HasPrefix(key, prefix) {
			kvs = append(kvs, kv)
		}
	}
	return kvs, m.revision, nil
}

func (m *memory) Get(_ context.Context, key string) (objdb.KV, error) {
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
	m.revision++
	for _, kv := range t.Puts {
		kv.ModRevision = m.revision
		m.kvs[kv.Key] = kv
	}
	for _, key := range t.Deletes {
		delete(m.kvs, key)
	}
	return m.revision, true, nil
}

// reportOf describes n local endpoints.
func reportOf(n int) operational {
	o := operational{endpoints: map[string]mastercfg.OperEndpointState{}, summary: mastercfg.OvsDriverOperState{ID: me, LocalEpInfo: map[string]mastercfg.LocalEpInfo{}}}
	for i := range n {
		id := fmt.Sprintf("web.blue-%03d", i)
		o.endpoints[id] = mastercfg.OperEndpointState{ID: id, HomingHost: me}
		o.summary.LocalEpInfo[id] = mastercfg.LocalEpInfo{OvsPortName: fmt.Sprint("vvport", i)}
	}
	return o
}

func TestReportIsWrittenOnceInTransactionsOfBoundedSize(t *testing.T) {
	m := &memory{kvs: map[string]objdb.KV{}}
	r := reporter{store: m, host: me}
	for range 2 {
		if err := r.reconcile(t.Context(), reportOf(120)); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.txns) != 3 || len(m.kvs) != 121 {
		t.Errorf("%d transactions, %d keys; want 3 and 121", len(m.txns), len(m.kvs))
	}
	for _, txn := range m.txns {
		if len(txn.Puts) > reportBatch+1 || len(txn.If) > reportBatch+1 {
			t.Errorf("transaction of %d puts and %d guards", len(txn.Puts), len(txn.If))
		}
	}
	if err := r.reconcile(t.Context(), reportOf(0)); err != nil {
		t.Fatal(err)
	}
	if len(m.kvs) != 0 {
		t.Errorf("%d keys left", len(m.kvs))
	}
}

func TestReportStartsFromTheStoreAfterADoubtfulOutcome(t *testing.T) {
	for _, outcome := range []error{nil, errors.New("connection lost")} {
		m := &memory{kvs: map[string]objdb.KV{}, refuse: []error{outcome}}
		r := reporter{store: m, host: me}
		if err := r.reconcile(t.Context(), reportOf(1)); err == nil {
			t.Fatal("no error")
		}
		// Meanwhile somebody, perhaps our own lost transaction, has written.
		value, err := json.Marshal(reportOf(1).endpoints["web.blue-000"])
		if err != nil {
			t.Fatal(err)
		}
		key := mastercfg.OperEndpointPrefix + "web.blue-000"
		m.kvs[key] = objdb.KV{Key: key, Value: value, ModRevision: 9}
		if err := r.reconcile(t.Context(), reportOf(1)); err != nil {
			t.Fatal(err)
		}
		if last := m.txns[len(m.txns)-1]; len(last.Puts) != 1 || last.Puts[0].Key != mastercfg.OvsDriverPrefix+me {
			t.Errorf("last transaction wrote %v, want only the summary", last.Puts)
		}
	}
}
