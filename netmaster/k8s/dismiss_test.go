package k8s

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// The identity of a node that joined with Kubernetes' token is removed with the Kubernetes node, once its agent
// has gone; identities assigned or limited manually remain.
func TestTheNameOfANodeGoesWithIt(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"lives", "leaves", "kept"} {
		w.must(w.client.CoreV1().Nodes().Create(t.Context(), node(name, "192.0.2.1"), metav1.CreateOptions{}))
	}
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		for name, joined := range map[string]mastercfg.Joined{
			"kept": {Token: "t2"}, "lives": {Token: mastercfg.VouchedToken}, "leaves": {Token: mastercfg.VouchedToken},
			"before": {Token: mastercfg.VouchedToken}, // deleted while there was no leader
			"byhand": {Token: "t1"}, "limited": {Token: mastercfg.VouchedToken, Tenants: []string{"blue"}},
		} {
			joined.Host = name
			if err := ledger.Write(tx, mastercfg.NodePrefix+name, joined); err != nil {
				return err
			}
		}
		tx.Put(mastercfg.NodePrefix+"damaged", []byte("{"))
		return nil
	}))
	want := func(names ...string) {
		t.Helper()
		w.eventually(func() error { return w.names(mastercfg.NodePrefix, names...) })
	}
	var gone atomic.Bool
	var asked atomic.Int64
	c := w.controller()
	c.cfg.GoneEvery = 10 * time.Millisecond
	c.cfg.Agents = func(context.Context) ([]string, error) {
		asked.Add(1)
		if gone.Load() {
			return []string{"lives"}, nil
		}
		return []string{"kept", "leaves", "lives"}, nil
	}
	w.run(c)
	want("byhand", "damaged", "kept", "leaves", "limited", "lives")

	asked.Store(0)
	for _, name := range []string{"leaves", "kept"} {
		w.must(nil, w.client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	w.eventually(func() error {
		if n := asked.Load(); n < 3 {
			return fmt.Errorf("asked %d times whether the agent still runs", n)
		}
		return nil
	})
	want("byhand", "damaged", "kept", "leaves", "limited", "lives")
	if err := w.names(mastercfg.K8sNodePrefix, "lives"); err != nil {
		t.Error(err)
	}
	w.eventually(func() error { return w.names(mastercfg.NodeGCPrefix, "before") })
	gone.Store(true)
	want("byhand", "damaged", "kept", "limited", "lives")
	// Their pods are deleted, too: another pod may have the address of one at once.
	w.eventually(func() error { return w.names(mastercfg.NodeGCPrefix, "before", "leaves") })
	w.must(nil, w.ledger.View(func(r ledger.Reader) error {
		return ledger.ReadEach(r, mastercfg.NodeGCPrefix, func(_ string, gc mastercfg.NodeGC) error {
			if gc.Remaining != "0s" {
				t.Errorf("%+v", gc)
			}
			return nil
		})
	}))
}

// names returns an error unless exactly these names are below a prefix.
func (w *world) names(prefix string, want ...string) error {
	w.Helper()
	if got := w.below(prefix); !slices.Equal(got, want) {
		return fmt.Errorf("below %s are %v, want %v", prefix, got, want)
	}
	return nil
}

// below returns the names below a prefix of the state.
func (w *world) below(prefix string) (names []string) {
	w.Helper()
	w.must(nil, w.ledger.View(func(r ledger.Reader) error {
		r.Range(prefix, func(key string, _ []byte) bool {
			names = append(names, strings.TrimPrefix(key, prefix))
			return true
		})
		return nil
	}))
	return names
}
