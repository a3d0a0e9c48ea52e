package master_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// Denials become allowances and others take their place, in more transactions than one. Agents see one
// after the other, and at each moment at least as many denials as there were.
func TestAgentsSeeNewDenialsBeforeOldOnesGo(t *testing.T) {
	const rules = 3000 // twice as many changes do not fit into a transaction of this store
	db := storetest.Open(t)
	l := storetest.Lead(t, db)
	write := func(tx *ledger.Tx, name, action string) error {
		for i := range rules {
			rule := mastercfg.CfgPolicyRule{RuleID: fmt.Sprint(name, i), Priority: 1, Action: action, IPProtocol: 6, DstPort: uint16(i + 1)}
			if err := ledger.Write(tx, mastercfg.PolicyRulePrefix+rule.RuleID, rule); err != nil {
				return err
			}
		}
		return nil
	}
	if _, err := l.UpdateLarge(t.Context(), func(tx *ledger.Tx) error { return write(tx, "a", "deny") }); err != nil {
		t.Fatal(err)
	}
	denials, fewest, batches := map[string]bool{}, rules, 0 // of one goroutine, until it has ended
	m := mirror.New(db, mastercfg.PolicyRulePrefix, func(b mirror.Batch) {
		batches++
		for _, e := range b.Events {
			if strings.Contains(string(e.Value), `"deny"`) {
				denials[e.Key] = true
			} else {
				delete(denials, e.Key)
			}
		}
		fewest = min(fewest, len(denials))
	})
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { _ = m.Run(ctx) })
	defer following.Wait()
	defer stop()
	testkit.Eventually(t, time.Minute, "the rules are followed", m.Synced)
	rev, err := l.UpdateLarge(t.Context(), func(tx *ledger.Tx) error {
		return cmp.Or(write(tx, "a", "allow"), write(tx, "b", "deny"))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.WaitChange(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	stop()
	following.Wait()
	if fewest < rules || len(denials) != rules || batches < 3 {
		t.Errorf("of %d denials at least %d were there, %d in the end, after %d batches", rules, fewest, len(denials), batches)
	}
}
