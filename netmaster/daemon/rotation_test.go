package daemon

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
)

// Netmasters replace their authorities without a restart: the one that follows is handed
// those of each step before the next one is done, and one that was away catches up.
func TestAuthoritiesAreReplacedWithoutARestart(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
	testkit.Eventually(t, 20*time.Second, "m2 has the authorities", second.daemon.papers.have)
	before := first.daemon.papers.authorities()
	old := certificate(t, before[pki.Client], identity.Identity{Kind: identity.Master, Name: "m9"}, x509.ExtKeyUsageClientAuth, time.Now())
	for _, step := range []pki.Step{pki.Add, pki.Switch, pki.Drop} {
		var done mastercfg.Rotation
		testkit.Eventually(t, 60*time.Second, "step "+string(step)+" may be done", func() bool {
			code, answer := exchange(t, overSocket(t, cfg.Socket), "POST", "http://localhost"+mastercfg.RotatePath, `{}`)
			if code != http.StatusOK && code != http.StatusConflict {
				t.Fatalf("%d %s", code, answer)
			}
			return code == http.StatusOK && json.Unmarshal([]byte(answer), &done) == nil
		})
		if done.Step != string(step) || done.Done != (step == pki.Drop) || done.Authorities != first.daemon.papers.authorities().Hash() {
			t.Errorf("step %s: %+v", step, done)
		}
	}
	now := first.daemon.papers.authorities()
	testkit.Eventually(t, 30*time.Second, "m2 knows the last step", func() bool { return second.daemon.papers.authorities().Hash() == now.Hash() })
	if given, err := pki.Load(second.daemon.cfg.Security.Dir); err != nil || given.Hash() != now.Hash() {
		t.Errorf("on the disk of m2: %v", err)
	}
	roots := []*x509.Certificate{now[pki.API].Certificate}
	for at, n := range map[string]*node{"the leader": first, "m2": second} {
		if code, answer := exchange(t, asking(t, roots), "GET", "https://"+n.addr+"/version", ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", at, code, answer)
		}
		if code, _ := exchange(t, asking(t, roots, old), "GET", "https://"+n.addr+"/version", ""); code != http.StatusUnauthorized {
			t.Errorf("%s believes a certificate of the old authority: %d", at, code)
		}
	}
	if code, _ := exchange(t, asking(t, roots), "GET", "https://"+first.addr+mastercfg.AuthoritiesPath, ""); code == http.StatusOK {
		t.Error("the keys are for everybody")
	}
	for _, kind := range []identity.Kind{identity.Node, identity.User} {
		c := certificate(t, now[pki.Client], identity.Identity{Kind: kind, Name: "x"}, x509.ExtKeyUsageClientAuth, time.Now())
		if code, _ := exchange(t, asking(t, roots, c), "GET", "https://"+second.addr+mastercfg.AuthoritiesPath, ""); code == http.StatusOK {
			t.Errorf("the keys are for a %s", kind)
		}
	}
}

// Whoever has seen the authorities of before a step does not undo it: neither a renewal, nor
// another step, nor what was handed over late.
func TestWhatWasReplacedStaysReplaced(t *testing.T) {
	_, p := served(t)
	seen := p.held.Load()
	next, err := seen.authorities.Next(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.replace(seen.authorities, next); err != nil {
		t.Fatal(err)
	}
	if err := p.renew(seen); err != nil || p.authorities().Hash() != next.Hash() {
		t.Errorf("a renewal has undone the step: %v", err)
	}
	if err := p.replace(seen.authorities, seen.authorities); err == nil || p.authorities().Hash() != next.Hash() {
		t.Errorf("a late step has undone the step: %v", err)
	}
	if written, err := pki.Load(p.cfg.Dir); err != nil || written.Hash() != next.Hash() {
		t.Errorf("on disk are others: %v", err)
	}
	now := p.held.Load()
	if err := p.renew(now); err != nil || p.held.Load() == now || p.authorities().Hash() != next.Hash() {
		t.Errorf("the certificates of now are not renewed: %v", err)
	}
}
