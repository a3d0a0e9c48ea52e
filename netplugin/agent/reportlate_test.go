package agent

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// keeping is a store on whose way the next transaction about a key stays, without an answer.
type keeping struct {
	*objdb.DB
	about string // nothing is kept where it is empty
	kept  objdb.Txn
}

func (k *keeping) Txn(ctx context.Context, txn objdb.Txn) (int64, bool, error) {
	if k.about == "" || len(txn.Puts) == 0 || txn.Puts[0].Key != k.about {
		return k.DB.Txn(ctx, txn)
	}
	k.about, k.kept = "", txn
	return 0, false, fault.New(fault.Unavailable, "no answer")
}

// What a node tells of itself and hears no answer to may arrive when it has told something else. That one stays, and who finds
// another record than it has read reads it again.
func TestAReportThatArrivesLateDoesNotReplaceTheOneAfterIt(t *testing.T) {
	e := newEtcd(t).start()
	for key, tell := range map[string]func(r *reporter, what string, now time.Time) error{
		mastercfg.K8sEnforcedKey(me): func(r *reporter, what string, now time.Time) error {
			_, err := r.tellEnforced(t.Context(), mastercfg.K8sEnforced{Number: uint32(len(what))}, now)
			return err
		},
		mastercfg.OvsDriverPrefix + me: func(r *reporter, what string, now time.Time) error {
			summary := mastercfg.OvsDriverOperState{ID: me, LocalEpInfo: map[string]mastercfg.LocalEpInfo{what: {}}}
			_, err := r.summarise(t.Context(), summary, now)
			return err
		},
	} {
		t.Run(strings.ReplaceAll(key, "/", " "), func(t *testing.T) {
			way, now := &keeping{DB: e.db, about: key}, time.Now()
			r := &reporter{store: way, host: me}
			told := func(what string) error {
				if err := r.load(t.Context()); err != nil {
					t.Fatal(err)
				}
				now = now.Add(time.Minute)
				return tell(r, what, now)
			}
			for i, what := range []string{"a", "a", "ab"} {
				if err := told(what); (err != nil) != (i == 0) {
					t.Fatal(i, err)
				}
			}
			last, err := e.db.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := e.db.Txn(t.Context(), way.kept); err != nil {
				t.Fatal(err)
			}
			if kv, err := e.db.Get(t.Context(), key); err != nil || string(kv.Value) != string(last.Value) {
				t.Errorf("%s has become %s, %v", last.Value, kv.Value, err)
			}
			e.put(key, "{}") // another hand
			if err := told("abc"); !fault.Is(err, fault.Conflict) {
				t.Errorf("over the record of another hand: %v", err)
			}
			if err := told("abc"); err != nil {
				t.Error(err)
			}
		})
	}
}
