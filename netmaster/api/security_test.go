package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

// step takes a step as a given identity and returns the answer's status.
func (b *bench) step(who, step string) contivmodel.SecurityStatus {
	b.Helper()
	var said contivmodel.SecurityStatus
	answer := b.want(who, "POST", mastercfg.SecurityPath+"/"+step, "", 200, "")
	if err := json.Unmarshal([]byte(answer), &said); err != nil {
		b.Fatal(err)
	}
	return said
}

// closing returns an open bench with a leader that can make CAs, and has an audit log.
func closing(t *testing.T) (b *bench, logged func() []audit.Entry) {
	t.Helper()
	var all pki.Authorities
	path := filepath.Join(t.TempDir(), "audit.log")
	log := audit.New(path, testkit.Quiet())
	b = secured(t, mastercfg.SecurityOpen, func(c *Config) {
		c.Audit = log
		c.Authorities = func() pki.Authorities { return all }
		c.Found = func() (err error) {
			if all == nil {
				all, err = pki.NewCluster(time.Now())
			}
			return err
		}
	})
	b.plan(func(tx *ledger.Tx) error { tx.Delete(mastercfg.SecurityKey); return nil }) // as a cluster of an earlier version
	return b, func() (entries []audit.Entry) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		log.Run(ended)
		text, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var e audit.Entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			entries = append(entries, e)
		}
		return entries
	}
}

func TestAnOpenClusterIsClosedStepByStep(t *testing.T) {
	b, logged := closing(t)
	b.want("", "POST", mastercfg.SecurityPath+"/enforce", "", 500, "permissive before")
	b.want("", "POST", mastercfg.SecurityPath+"/relax", "", 500, "nothing to relax")

	// Not from elsewhere: any client could claim to be the admin.
	r := httptest.NewRequest("POST", mastercfg.SecurityPath+"/init", nil)
	r.RemoteAddr = "10.1.1.1:4000"
	w := httptest.NewRecorder()
	if b.api.ServeHTTP(w, r); w.Code != 403 {
		t.Errorf("from elsewhere: %d %s", w.Code, w.Body)
	}
	if said := b.step("", "init?dryRun=true"); said.Mode != "permissive" || said.Was != "open" || said.ClusterID != "" {
		t.Errorf("%+v", said)
	}
	if said := b.want("", "GET", mastercfg.SecurityPath, "", 200, ""); !strings.Contains(said, `"open"`) || len(logged()) != 0 {
		t.Errorf("a dry run has changed something: %s, %v", said, logged())
	}
	said := b.step("", "init")
	if said.Mode != "permissive" || said.Was != "open" || said.ClusterID == "" || len(said.Pin) != 64 {
		t.Errorf("%+v", said)
	}
	if again := b.step("proven:root", "init"); again.ClusterID != said.ClusterID || again.Was != again.Mode {
		t.Errorf("twice: %+v, then %+v", said, again)
	}
	b.want("", "GET", "networks/blue:web", "", 200, "")
	b.want("", "POST", mastercfg.SecurityPath+"/enforce", "", 401, "") // who may what is guarded now
	b.want(b.user("op", rights.Grant{Role: rights.Operator, Tenant: "*"}), "POST", mastercfg.SecurityPath+"/enforce", "", 403, "")
	admin := b.user("ann", rights.Grant{Role: rights.Admin, Tenant: "*"})
	b.step(admin, "enforce?dryRun=true")
	b.want("", "GET", "networks/blue:web", "", 200, "")
	if said := b.step(admin, "enforce"); said.Mode != "enforced" || said.Was != "permissive" || said.ClusterID == "" {
		t.Errorf("%+v", said)
	}
	b.want("", "GET", "networks/blue:web", "", 401, "")
	b.step(admin, "relax?dryRun=true")
	b.want("", "GET", "networks/blue:web", "", 401, "")
	if said := b.step(admin, "relax"); said.Mode != "permissive" || said.Was != "enforced" || said.ClusterID == "" {
		t.Errorf("%+v", said)
	}
	b.want("", "GET", "networks/blue:web", "", 200, "")
	if said := b.step(admin, "relax"); said.Mode != "permissive" {
		t.Errorf("not to permissive: %+v", said)
	}
	steps := ""
	for _, e := range logged() {
		if step, is := strings.CutPrefix(e.Key, mastercfg.SecurityPath+"/"); is && e.Decision == audit.Allowed {
			steps += step + " by " + e.Principal + ", "
		}
	}
	if want := "init by nobody, init by root, enforce by user/ann, enforce by user/ann, relax by user/ann, relax by user/ann, relax by user/ann, "; steps != want {
		t.Errorf("audited: %s; want %s", steps, want)
	}
}

// In an open cluster no daemon can join, and no token is created for later, even if there are CAs already: what
// any client could write would count once the cluster is secured. So would tokens that an earlier version has
// created while it was open.
func TestAnOpenClusterLetsNobodyJoin(t *testing.T) {
	b, _ := closing(t)
	if err := b.api.config.Found(); err != nil { // as of a leader that was killed before it wrote the record
		t.Fatal(err)
	}
	by, err := b.api.members.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	before, err := jointoken.New(pki.KeyHash(by[pki.API].Certificate))
	if err != nil {
		t.Fatal(err)
	}
	b.plan(func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.JoinTokenPrefix+before.ID, mastercfg.JoinToken{ID: before.ID, Role: "master", Digest: before.Digest(), Host: "*", Expires: time.Now().Add(time.Hour)})
	})
	joins := func(token string) string {
		return string(must(json.Marshal(mastercfg.JoinRequest{Token: token, Host: "m2", CSR: newMachine(t, "m2").csr})))
	}
	for _, who := range []string{"", "proven:root"} { // nobody is asked, root neither
		for _, c := range [][3]string{
			{"POST", mastercfg.JoinTokensPath, `{"role":"master","ttl":"8760h"}`}, {"GET", mastercfg.JoinTokensPath, ""},
			{"DELETE", mastercfg.JoinTokensPath + "/" + before.ID, ""}, {"POST", mastercfg.JoinPath, joins(before.Text())},
		} {
			b.want(who, c[0], c[1], c[2], 500, "the cluster is open, and who joins it now would belong to it once it is closed: netctl security init")
		}
	}
	b.step("proven:root", "init?dryRun=true")
	if _, there := storetest.Dump(t, b.db)[mastercfg.JoinTokenPrefix+before.ID]; !there {
		t.Error("a dry run has ended the token")
	}
	b.step("proven:root", "init")
	b.want("proven:root", "GET", mastercfg.JoinTokensPath, "", 200, "[]")
	b.want("proven:root", "POST", mastercfg.JoinPath, joins(before.Text()), 500, "there is none with this id and secret")
	var shown mastercfg.ShownJoinToken
	if err := json.Unmarshal([]byte(b.want("proven:root", "POST", mastercfg.JoinTokensPath, `{"role":"master"}`, 200, "")), &shown); err != nil {
		t.Fatal(err)
	}
	b.step("proven:root", "init") // once more, of a cluster that is closed
	b.step("proven:root", "enforce")
	b.step("proven:root", "relax")
	b.want("proven:root", "POST", mastercfg.JoinPath, joins(shown.Token), 200, `"files":`)
}

// A daemon without a certificate would be shut out.
func TestAClusterWithAPlainDaemonIsNotEnforced(t *testing.T) {
	b := secured(t, mastercfg.SecurityPermissive)
	register := func(services ...objdb.Service) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		r, err := b.db.Register(ctx, 10*time.Second, services...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		for _, s := range services {
			testkit.Eventually(t, 20*time.Second, s.Key(), func() bool { _, err := b.db.Get(ctx, s.Key()); return err == nil })
		}
	}
	agent := func(host string, port int, authorities string) objdb.Service {
		return objdb.Service{ServiceName: mastercfg.AgentService, Hostname: host, HostAddr: "10.1.1." + host[1:], Port: port, Authorities: authorities}
	}
	register(agent("h1", 9002, "abcd"), agent("h1", 9003, "")) // the second is there for tools that count
	b.step("proven:root", "enforce?dryRun=true")
	register(agent("h2", 9002, ""), agent("h3", 9002, "abcd")) // h3 says so, but has not joined
	register(objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: "10.1.1.9", Port: 9999},
		objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: "10.1.1.8", Port: 9999, Authorities: "abcd"})
	for _, step := range []string{"enforce", "enforce?dryRun=true"} {
		b.want("proven:root", "POST", mastercfg.SecurityPath+"/"+step, "", 500, "master 10.1.1.9:9999, node h2, node h3 could not")
	}
	b.want("", "GET", "networks/blue:web", "", 200, "")
	answer := b.want("", "GET", mastercfg.SecurityPath, "", 200, "")
	var said contivmodel.SecurityStatus
	if err := json.Unmarshal([]byte(answer), &said); err != nil || len(said.Daemons) != 5 {
		t.Errorf("%s, %v", answer, err)
	}
}

// A client with access to the store controls the cluster, whatever netmasters require. A store on loopback, as
// this one, is accessible only on its machine.
func TestAClusterIsNotEnforcedWhileItsStoreIsExposed(t *testing.T) {
	b := secured(t, mastercfg.SecurityPermissive)
	t.Run("a member that others reach plainly", func(t *testing.T) {
		storetest.MovePeer(t, "http://192.0.2.9:2380")
		for _, step := range []string{"enforce", "enforce?dryRun=true"} {
			b.want("proven:root", "POST", mastercfg.SecurityPath+"/"+step, "", 500, "http://192.0.2.9:2380")
		}
		b.want("", "GET", "networks/blue:web", "", 200, "")
		b.step("proven:root", "relax")
	})
	t.Run("a member with TLS", func(t *testing.T) {
		storetest.MovePeer(t, "https://192.0.2.9:2380")
		b.step("proven:root", "enforce")
		b.want("", "GET", "networks/blue:web", "", 401, "")
	})
}

func TestTheReportNamesWhomAnEnforcedClusterWouldRefuse(t *testing.T) {
	now := time.Now().UTC()
	b := secured(t, mastercfg.SecurityPermissive, func(c *Config) { c.Now = func() time.Time { return now } })
	report := func() map[string]int64 {
		t.Helper()
		var said contivmodel.SecurityReport
		if err := json.Unmarshal([]byte(b.want("proven:root", "GET", mastercfg.SecurityPath+"/report", "", 200, "")), &said); err != nil {
			t.Fatal(err)
		}
		rows := map[string]int64{}
		for _, row := range said.Rows {
			if row.Reason == "" || row.Source != "127.0.0.1" || row.Last.IsZero() || said.Since.IsZero() {
				t.Errorf("%+v since %s", row, said.Since)
			}
			rows[row.Principal+" "+row.Request] = row.Count
		}
		return rows
	}
	ann := b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "blue"})
	b.want("", "GET", "networks/blue:web", "", 200, "")
	b.want("", "GET", "networks/red:web", "", 200, "")
	b.want(ann, "GET", "networks/red:web", "", 200, "")
	b.want(ann, "GET", "networks/blue:web", "", 200, "")               // may do so
	b.want("", "POST", mastercfg.SecurityPath+"/enforce", "", 401, "") // was refused
	b.want("", "BREW", "networks/blue:web", "", 405, "")               // nobody can ask that
	b.want("", "GET", "/version", "", 200, "")
	plain := httptest.NewRequest("GET", "/version", nil)
	plain.RemoteAddr = "127.0.0.1:4000"
	b.api.ServeHTTP(httptest.NewRecorder(), rest.Plain(plain))
	want := map[string]int64{"nobody GET /api/v1/networks/{key}": 2, "user/ann GET /api/v1/networks/{key}": 1, "nobody GET /version": 1}
	check := func(when string, want map[string]int64) {
		t.Helper()
		got, err := json.Marshal(report())
		expected, _ := json.Marshal(want)
		if err != nil || string(got) != string(expected) {
			t.Errorf("%s: %s, %v; want %s", when, got, err, expected)
		}
	}
	check("at once", want)
	now = now.Add(20 * time.Hour)
	b.want("", "GET", "networks/blue:web", "", 200, "")
	now = now.Add(5 * time.Hour)
	check("a day later", map[string]int64{"nobody GET /api/v1/networks/{key}": 1})
	now = now.Add(24 * time.Hour)
	check("two days later", map[string]int64{})
	b.mode(mastercfg.SecurityEnforced)
	b.want("", "GET", "networks/blue:web", "", 401, "")
	check("enforced", map[string]int64{})
}

// A role for loopback gives a request exactly that role; a request with a token there has the token's identity.
func TestLoopbackHasItsRole(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced)
	ann := b.user("ann", rights.Grant{Role: rights.TenantAdmin, Tenant: "blue"})
	b.want("proven:loopback/viewer", "GET", "networks/red:web", "", 200, "")
	b.want("proven:loopback/viewer", "POST", "networks/blue:green", green, 403, "")
	b.want("proven:loopback/viewer", "POST", mastercfg.CreateEndpointPath, "{}", 403, "")
	b.want("proven:loopback/admin", "POST", "networks/blue:green", green, 200, "")
	if code, answer, _ := b.do("DELETE", "networks/blue:green", "", auth.TokenHeader, ann, provenHeader, "loopback/viewer"); code != 200 {
		t.Errorf("%d %s", code, answer)
	}
	if who := (identity.Identity{Kind: identity.Loopback, Name: "viewer"}); who.String() != "loopback/viewer" {
		t.Error(who)
	}
}
