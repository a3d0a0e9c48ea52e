package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A step waits until every netmaster, and every joined node, has the result of the previous one; it names those
// that do not. A joined node that is down is named, too.
func TestAStepOfReplacingAuthoritiesWaitsForAll(t *testing.T) {
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var present atomic.Pointer[pki.Authorities]
	present.Store(&by)
	b := start(t, func(c *Config) {
		c.Authorities = func() pki.Authorities { return *present.Load() }
		c.Replace = func(_, next pki.Authorities) error { present.Store(&next); return nil }
	})
	if _, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		if err := ledger.Write(tx, mastercfg.NodePrefix+"h9", mastercfg.Joined{Host: "h9", Addresses: []string{}, Knows: []string{pki.KeyHash(by[pki.API].Certificate)}, Expires: time.Now().Add(time.Hour)}); err != nil {
			return err
		}
		return ledger.Write(tx, mastercfg.SecurityKey, mastercfg.Security{Mode: mastercfg.SecurityOpen, ClusterID: by.Cluster()})
	}); err != nil {
		t.Fatal(err)
	}
	services := func(node, master string) []objdb.Service {
		return []objdb.Service{
			{ServiceName: mastercfg.AgentService, Hostname: "h1", HostAddr: "10.0.0.1", Port: 1, Authorities: node},
			{ServiceName: mastercfg.AgentService, Hostname: "h2", HostAddr: "10.0.0.2", Port: 1}, // has not joined
			{ServiceName: mastercfg.MasterService, HostAddr: "10.0.0.3", Port: 1, Authorities: master},
		}
	}
	registered, err := b.db.Register(t.Context(), time.Minute, services(by.Hash(), "")...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registered.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	rotate := func(body string) (int, string) {
		code, answer, _ := b.do("POST", mastercfg.RotatePath, body, "Accept", fault.ProblemType)
		return code, answer
	}
	waits := func(whom string) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, "it waits for "+whom, func() bool {
			code, answer := rotate(`{"dryRun":true}`)
			return code == http.StatusConflict && strings.Contains(answer, "waits for "+whom+",")
		})
	}
	step := func(want pki.Step) {
		t.Helper()
		var done mastercfg.Rotation
		hash := present.Load().Hash()
		testkit.Eventually(t, 20*time.Second, "step "+string(want), func() bool {
			code, answer := rotate(`{}`)
			return code == http.StatusOK && json.Unmarshal([]byte(answer), &done) == nil
		})
		got := record[mastercfg.Security](b, mastercfg.SecurityKey)
		if done.Step != string(want) || strings.Join(done.Absent, " ") != "node/h9" || got.Authorities != present.Load().Hash() || got.Authorities == hash || got.ClusterID != by.Cluster() {
			t.Errorf("step %s: %+v, record %+v", want, done, got)
		}
	}
	out := func(want bool) {
		t.Helper()
		for _, path := range []string{mastercfg.NodesPath, "/api/v1/status"} {
			if answer := b.ok("GET", path, ""); !strings.Contains(answer, `"h9"`) && want || strings.Contains(answer, `"mustJoin":true`) != want {
				t.Errorf("h9 has to join anew, want %t: %s", want, answer)
			}
		}
	}
	token := func(id string) {
		b.plan(func(tx *ledger.Tx) error {
			return ledger.Write(tx, mastercfg.JoinTokenPrefix+id, mastercfg.JoinToken{ID: id})
		})
	}
	tokens := func(want string) {
		t.Helper()
		var ids []string
		if err := b.ledger.View(func(r ledger.Reader) error {
			return ledger.ReadEach(r, mastercfg.JoinTokenPrefix, func(_ string, there mastercfg.JoinToken) error {
				ids = append(ids, there.ID)
				return nil
			})
		}); err != nil || strings.Join(ids, " ") != want {
			t.Errorf("join tokens %q, %v, want %q", ids, err, want)
		}
	}
	token("a")
	waits("master/10.0.0.3")
	registered.Update(services(by.Hash(), by.Hash())...)
	step(pki.Add)
	token("b")
	tokens("a b")
	waits("master/10.0.0.3, node/h1")
	now := present.Load().Hash()
	registered.Update(services(by.Hash(), now)...)
	waits("node/h1")
	registered.Update(services(now, now)...)
	out(false)
	step(pki.Switch)
	out(true)  // it does not have the signing CA yet
	tokens("") // their pin is that of the old one
	token("c")

	// If the record of a step was not written, that is done now, and nothing else.
	next, err := present.Load().Next(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	present.Store(&next)
	if code, answer := rotate(`{}`); code != http.StatusOK || !strings.Contains(answer, `"again"`) || present.Load().Hash() != next.Hash() {
		t.Errorf("after an interruption: %d %s", code, answer)
	}
	if got := record[mastercfg.Security](b, mastercfg.SecurityKey); got.Authorities != next.Hash() {
		t.Errorf("the record names %s", got.Authorities)
	}
	tokens("c")
}

// A removed netmaster that still runs is not waited for, also one of an earlier version, of which only the address
// is known.
func TestNobodyWaitsForANetmasterThatWasRemoved(t *testing.T) {
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, func(c *Config) { c.Authorities = func() pki.Authorities { return by } })
	if _, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		for _, m := range []mastercfg.RemovedMaster{{Host: "m2", Addresses: []string{"10.0.0.9"}}, {Host: "m3", Addresses: []string{"10.0.0.3"}}} {
			if err := ledger.Write(tx, mastercfg.RemovedMasterPrefix+m.Host, m); err != nil {
				return err
			}
		}
		return ledger.Write(tx, mastercfg.SecurityKey, mastercfg.Security{Mode: mastercfg.SecurityOpen, ClusterID: by.Cluster()})
	}); err != nil {
		t.Fatal(err)
	}
	registered, err := b.db.Register(t.Context(), time.Minute,
		objdb.Service{ServiceName: mastercfg.MasterService, Hostname: "m1", HostAddr: "10.0.0.1", Port: 1, Authorities: by.Hash()},
		objdb.Service{ServiceName: mastercfg.MasterService, Hostname: "m2", HostAddr: "10.0.0.2", Port: 1},
		objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: "10.0.0.3", Port: 1},
		objdb.Service{ServiceName: mastercfg.MasterService, Hostname: "m4", HostAddr: "10.0.0.9", Port: 1}) // has the address of m2 now
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registered.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	testkit.Eventually(t, 20*time.Second, "it waits for m4 only", func() bool {
		code, answer, _ := b.do("POST", mastercfg.RotatePath, `{"dryRun":true}`, "Accept", fault.ProblemType)
		return code == http.StatusConflict && strings.Contains(answer, "waits for master/10.0.0.9, which")
	})
}
