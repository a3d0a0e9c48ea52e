package agent

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
)

// keeping is a store that holds the next transaction about a key, without an answer.
type keeping struct {
	*objdb.DB
	about string // empty: nothing is held
	gone  bool   // hold a deletion
	kept  objdb.Txn
}

func (k *keeping) Txn(ctx context.Context, txn objdb.Txn) (int64, bool, error) {
	if k.about == "" || k.gone && !slices.Contains(txn.Deletes, k.about) ||
		!k.gone && !slices.ContainsFunc(txn.Puts, func(kv objdb.KV) bool { return kv.Key == k.about }) {
		return k.DB.Txn(ctx, txn)
	}
	k.about, k.kept = "", txn
	return 0, false, fault.New(fault.Unavailable, "no answer")
}

// A node's report without an answer may be applied after a later one. The later one must remain, and a reporter
// that finds another record than it has read reads it again.
func TestAReportThatArrivesLateDoesNotReplaceTheOneAfterIt(t *testing.T) {
	e := newEtcd(t).start()
	for key, tell := range map[string]func(r *reporter, what string, now time.Time) error{
		mastercfg.K8sEnforcedKey(me): func(r *reporter, what string, now time.Time) error {
			_, err := r.reportEnforced(t.Context(), mastercfg.K8sEnforced{Number: uint32(len(what))}, now)
			return err
		},
		mastercfg.OvsDriverPrefix + me: func(r *reporter, what string, now time.Time) error {
			summary := mastercfg.OvsDriverOperState{ID: me, LocalEpInfo: map[string]mastercfg.LocalEpInfo{what: {}}}
			_, err := r.reportSummary(t.Context(), summary, now)
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
			e.put(key, "{}") // written by another client
			if err := told("abc"); !fault.Is(err, fault.Conflict) {
				t.Errorf("over the record of another hand: %v", err)
			}
			if err := told("abc"); err != nil {
				t.Error(err)
			}
		})
	}
}

// The same with records of endpoints: neither an older record returns, nor that of an endpoint without a port, nor
// is the record of an existing endpoint deleted.
func TestAReportOfAnEndpointThatArrivesLateDoesNothing(t *testing.T) {
	const id = "web.blue-1"
	key := mastercfg.OperEndpointPrefix + id
	at := func(addresses ...string) operational {
		o := reportOf(0)
		for _, address := range addresses {
			o.endpoints[id] = mastercfg.OperEndpointState{ID: id, HomingHost: me, IPAddress: address}
			o.summary.LocalEpInfo[id] = mastercfg.LocalEpInfo{OvsPortName: "vvport1"}
		}
		return o
	}
	none := at()
	for _, c := range []struct {
		name        string
		before      []operational
		lost, after operational
		gone        bool // the lost transaction deletes
		stays       string
	}{
		{"the first record after another", nil, at("10.1.0.1"), at("10.1.0.2"), false, "10.1.0.2"},
		{"a change after another", []operational{at("10.1.0.1")}, at("10.1.0.2"), at("10.1.0.3"), false, "10.1.0.3"},
		{"the first record after its port is gone", nil, at("10.1.0.1"), none, false, ""},
		{"a record after its port is gone, and all reports", []operational{at("10.1.0.1"), none}, at("10.1.0.2"), none, false, ""},
		{"a deletion after the port is there again", []operational{at("10.1.0.1")}, none, at("10.1.0.1"), true, "10.1.0.1"},
		{"the first record after reports began anew", []operational{at("10.1.0.1"), none}, at("10.1.0.1"), none, false, ""},
		{"a deletion after reports began anew", []operational{at("10.1.0.1"), none, at("10.1.0.1")}, none, at("10.1.0.4"), true, "10.1.0.4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEtcd(t).start()
			e.put(epKey(id), epValue("web.blue", me, "10.1.0.1"))
			way, now := &keeping{DB: e.db, gone: c.gone}, time.Now()
			r := &reporter{store: way, host: me}
			told := func(want operational) error {
				now = now.Add(time.Second) // summaries are not due
				return r.write(t, want, now)
			}
			for _, want := range c.before {
				if err := told(want); err != nil {
					t.Fatal(err)
				}
			}
			way.about = key
			if err := told(c.lost); !fault.Is(err, fault.Unavailable) {
				t.Fatal(err)
			}
			for range 2 {
				if err := told(c.after); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := e.db.Txn(t.Context(), way.kept); err != nil {
				t.Fatal(err)
			}
			kv, err := e.db.Get(t.Context(), key)
			if gone := fault.Is(err, fault.NotFound); gone != (c.stays == "") || err == nil && !strings.Contains(string(kv.Value), c.stays) {
				t.Errorf("the record is %s, %v, want one with %q", kv.Value, err, c.stays)
			}
			if c.stays == "" {
				if left := e.keys(mastercfg.OvsDriverPrefix); len(left) > 0 {
					t.Errorf("left: %q", left)
				}
			}
			e.put(mastercfg.OvsDriverPrefix+me, "{}") // written by another client
			if err := told(at("10.1.0.9")); !fault.Is(err, fault.Conflict) {
				t.Errorf("beside the summary of another hand: %v", err)
			}
			if err := told(at("10.1.0.9")); err != nil {
				t.Error(err)
			}
		})
	}
}

// While the epoch of policies is unknown, the last report of it remains, even if its content is not known yet.
func TestAnEpochOfWhichTheAnswerWasLostStays(t *testing.T) {
	e := newEtcd(t).start()
	key := mastercfg.K8sEnforcedKey(me)
	way, now := &keeping{DB: e.db}, time.Now()
	r := &reporter{store: way, host: me}
	if err := r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	tell := func(of mastercfg.K8sEnforced) error {
		now = now.Add(time.Minute)
		_, err := r.reportEnforced(t.Context(), of, now)
		return err
	}
	if err := tell(mastercfg.K8sEnforced{Number: 1}); err != nil {
		t.Fatal(err)
	}
	way.about = key
	if err := tell(mastercfg.K8sEnforced{Number: 2}); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	if _, _, err := e.db.Txn(t.Context(), way.kept); err != nil { // the transaction was applied
		t.Fatal(err)
	}
	if err := tell(mastercfg.K8sEnforced{}); err != nil {
		t.Fatal(err)
	}
	if kv, err := e.db.Get(t.Context(), key); err != nil || !strings.Contains(string(kv.Value), `:2`) {
		t.Errorf("%s, %v", kv.Value, err)
	}
}
