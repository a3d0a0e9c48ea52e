package daemon

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// asMaster returns the answers of a netmaster to a client with another netmaster's certificate: the status of a
// request for the keys, and of one forwarded for root.
func asMaster(t *testing.T, at *node, by pki.Authorities, shown tls.Certificate) (keys, passed string) {
	t.Helper()
	client := clientOf(t, []*x509.Certificate{by[pki.API].Certificate}, shown)
	for path, into := range map[string]*string{mastercfg.AuthoritiesPath: &keys, mastercfg.NodesPath: &passed} {
		req, err := http.NewRequest("GET", "https://"+at.addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "application/problem+json")
		if path == mastercfg.NodesPath {
			req.Header.Set(identityHeader, "root")
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		*into = resp.Status[:3]
	}
	return keys, passed
}

// The certificate of a removed netmaster is rejected by every netmaster until another one joins with its name, and
// the CAs are replaced without it.
func TestANetmasterThatWasRemovedIsNobody(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	root := overSocket(t, cfg.Socket)
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
	third := newcomer(t, "m3", tokenFile(t, cfg.Socket, "master"))
	for _, n := range []*node{second, third} {
		testkit.Eventually(t, time.Minute, "it has the authorities", n.daemon.certificates.hasAuthorities)
	}
	by := first.daemon.certificates.authorities()
	shown := certificate(t, by[pki.Client], identity.Identity{Kind: identity.Master, Name: "m2"}, x509.ExtKeyUsageClientAuth, time.Now())
	everywhere := func(want string) {
		t.Helper()
		for at, n := range map[string]*node{"the leader": first, "a follower": third} {
			testkit.Eventually(t, 20*time.Second, fmt.Sprintf("%s answers m2 with %s", at, want), func() bool {
				keys, passed := asMaster(t, n, by, shown)
				return (keys == want || n != first && want == "200") && passed == want // the keys are given by the leader itself only
			})
		}
	}
	rejoined := func() *node {
		again := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
		testkit.Eventually(t, time.Minute, "m2 has the authorities again", again.daemon.certificates.hasAuthorities)
		return again
	}
	change := func(method, path string, want int) {
		t.Helper()
		if code, answer := exchange(t, root, method, "http://localhost"+mastercfg.MastersPath+path, ""); code != want {
			t.Fatalf("%s %s: %d %s", method, path, code, answer)
		}
	}
	everywhere("200")
	change("POST", "/m2/rekey", http.StatusOK) // the next one to join may have the name
	everywhere("200")
	change("DELETE", "/m2", http.StatusOK)
	everywhere("401")
	second.shut()
	second = rejoined()
	everywhere("200")
	change("DELETE", "/m2", http.StatusOK)
	everywhere("401")
	change("DELETE", "/m1", http.StatusConflict) // it leads

	// A join token for any netmaster does not readmit one that was removed while it runs.
	if err := os.Rename(tokenFile(t, cfg.Socket, "master"), second.daemon.cfg.Security.TokenFile); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, "m2 leaves leading to others", func() bool {
		return !second.daemon.mayLead(t.Context()) && third.daemon.mayLead(t.Context())
	})
	before := second.daemon.certificates.authorities().Hash()
	rotate(t, first, pki.Add)
	now := first.daemon.certificates.authorities()
	testkit.Eventually(t, time.Minute, "m3 has those of the step", func() bool { return third.daemon.certificates.authorities().Hash() == now.Hash() })
	rotate(t, first, pki.Switch)
	last := first.daemon.certificates.authorities().Hash()
	testkit.Eventually(t, time.Minute, "m3 has those of the next step", func() bool { return third.daemon.certificates.authorities().Hash() == last })
	if second.daemon.certificates.authorities().Hash() != before {
		t.Error("m2 was given the new authorities")
	}
	first.shut()
	leader(t, second, third)
	if second.leads() {
		t.Error("the one that was removed leads")
	}
}

// A watch that a netmaster has forwarded, for whomever it named, ends when the netmaster is removed.
func TestWhatARemovedNetmasterWatchesEnds(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t, func(s *Security) { s.Founding = mastercfg.SecurityEnforced })
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
	testkit.Eventually(t, time.Minute, "m2 has the authorities", second.daemon.certificates.hasAuthorities)
	by := first.daemon.certificates.authorities()
	shown := certificate(t, by[pki.Client], identity.Identity{Kind: identity.Master, Name: "m2"}, x509.ExtKeyUsageClientAuth, time.Now())
	req, err := http.NewRequest("GET", "https://"+first.addr+"/api/v1/tenants/?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(identityHeader, "root")
	resp, err := clientOf(t, []*x509.Certificate{by[pki.API].Certificate}, shown).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	if !lines.Scan() || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %v", resp.Status, lines.Err())
	}
	if code, answer := exchange(t, overSocket(t, cfg.Socket), "DELETE", "http://localhost"+mastercfg.MastersPath+"/m2", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	for lines.Scan() { // events from before
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the watch goes on: %v", err)
	}
}

// The founder of the cluster, which has never joined, can be removed, too.
func TestTheFounderCanBeRemoved(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	token := tokenFile(t, cfg.Socket, "master")
	dir := t.TempDir()
	second := run(t, func(c *Config) {
		c.Security = Security{Dir: filepath.Join(dir, "pki"), Secure: true, Name: "m2", TokenFile: token, Socket: filepath.Join(dir, "netmaster.sock")}
	})
	testkit.Eventually(t, time.Minute, "m2 has the authorities", second.daemon.certificates.hasAuthorities)
	by := first.daemon.certificates.authorities()
	first.shut()
	leader(t, second)
	root := overSocket(t, filepath.Join(dir, "netmaster.sock"))
	if _, answer := exchange(t, root, "GET", "http://localhost"+mastercfg.MastersPath, ""); !strings.Contains(answer, `"m1"`) {
		t.Errorf("netmasters: %s", answer)
	}
	if code, answer := exchange(t, root, "DELETE", "http://localhost"+mastercfg.MastersPath+"/m1", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	shown := certificate(t, by[pki.Client], identity.Identity{Kind: identity.Master, Name: "m1"}, x509.ExtKeyUsageClientAuth, time.Now())
	testkit.Eventually(t, 20*time.Second, "m1 is nobody", func() bool {
		keys, passed := asMaster(t, second, by, shown)
		return keys == "401" && passed == "401"
	})
	// With its old data it is not accepted again, whatever token it has.
	back := run(t, func(c *Config) {
		c.Security = cfg
		c.Security.TokenFile = tokenFile(t, filepath.Join(dir, "netmaster.sock"), "master")
	})
	if err := back.daemon.tryJoin(t.Context()); err == nil || !strings.Contains(err.Error(), "was removed") {
		t.Errorf("m1 joins again: %v", err)
	}
}

// A leader that has just started knows the removed netmasters from its own ledger, before other records are read.
func TestALeaderKnowsAtOnceWhoWasRemoved(t *testing.T) {
	opened := storetest.Lead(t, storetest.Open(t))
	if _, err := opened.Update(t.Context(), func(tx *ledger.Tx) error {
		tx.Put(mastercfg.RemovedMasterPrefix+"m2", []byte("{}"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var known removals
	if err := known.admit("m1"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("before it is known who was removed: %v", err)
	}
	if err := known.learn(opened); err != nil {
		t.Fatal(err)
	}
	if err := known.admit("m1"); err != nil {
		t.Error(err)
	}
	if err := known.admit("m2"); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("one that was removed: %v", err)
	}
}
