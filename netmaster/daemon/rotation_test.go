package daemon

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
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
		rotate(t, first, step)
	}
	now := first.daemon.papers.authorities()
	testkit.Eventually(t, 30*time.Second, "m2 knows the last step", func() bool { return second.daemon.papers.authorities().Hash() == now.Hash() })
	if given, err := pki.Load(second.daemon.cfg.Security.Dir); err != nil || given.Hash() != now.Hash() {
		t.Errorf("on the disk of m2: %v", err)
	}
	testkit.Eventually(t, 20*time.Second, "it is written down whom the keys were handed to", func() bool {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(cfg.Dir), "audit.log"))
		return err == nil && strings.Contains(string(text), `"principal":"master/m2","how":"certificate","source":"127.0.0.1","verb":"GET","key":"`+mastercfg.AuthoritiesPath+`"`)
	})
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

// rotate does a step at a netmaster that leads, when everybody knows the one before it.
func rotate(t *testing.T, at *node, step pki.Step) {
	t.Helper()
	var done mastercfg.Rotation
	testkit.Eventually(t, 60*time.Second, "step "+string(step)+" may be done", func() bool {
		code, answer := exchange(t, overSocket(t, at.daemon.cfg.Security.Socket), "POST", "http://localhost"+mastercfg.RotatePath, `{}`)
		if code != http.StatusOK && code != http.StatusConflict {
			t.Fatalf("%d %s", code, answer)
		}
		return code == http.StatusOK && json.Unmarshal([]byte(answer), &done) == nil
	})
	if done.Step != string(step) || done.Done != (step == pki.Drop) || done.Authorities != at.daemon.papers.authorities().Hash() {
		t.Errorf("step %s: %+v", step, done)
	}
}

// A netmaster that was away while authorities were replaced leads with the old ones only while
// nobody has those of the record. Then it yields, and joins anew with the token in its file.
func TestANetmasterThatWasAwayWhileAuthoritiesWereReplacedJoinsAnew(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
	testkit.Eventually(t, 20*time.Second, "m2 has the authorities", second.daemon.papers.have)
	away := second.daemon.cfg.Security
	second.shut()
	for _, step := range []pki.Step{pki.Add, pki.Switch, pki.Drop} {
		rotate(t, first, step)
	}
	now := first.daemon.papers.authorities().Hash()
	away.TokenFile = tokenFile(t, cfg.Socket, "master")
	first.shut()

	second = run(t, func(c *Config) { c.Security = away })
	leader(t, second)
	if second.daemon.papers.authorities().Hash() == now {
		t.Error("it has the authorities of now, of nobody")
	}
	first = run(t, func(c *Config) { c.Security = cfg })
	testkit.Eventually(t, 30*time.Second, "the one with the authorities of the record leads", func() bool { return first.leads() && !second.leads() })
	testkit.Eventually(t, 30*time.Second, "the other one has them, too", func() bool { return second.daemon.papers.authorities().Hash() == now })
}

// The key that seals secrets is replaced while all netmasters run: a follower is given the new one
// before it is used, and what is sealed then opens there.
func TestTheKeyOfSecretsIsReplacedWithoutARestart(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
	before := first.daemon.keyring.State()
	testkit.Eventually(t, 20*time.Second, "m2 has the keyring", func() bool { return before != "" && second.daemon.keyring.State() == before })
	for _, want := range []string{"add", "turn"} {
		var done mastercfg.KeysRotation
		testkit.Eventually(t, 30*time.Second, "step "+want+" may be done", func() bool {
			code, answer := exchange(t, overSocket(t, cfg.Socket), "POST", "http://localhost"+mastercfg.RotateKeysPath, `{}`)
			return code == http.StatusOK && json.Unmarshal([]byte(answer), &done) == nil
		})
		if done.Step != want || done.Done != (want == "turn") {
			t.Errorf("step %s: %+v", want, done)
		}
	}
	sealed, err := first.daemon.keyring.Seal("here", "a secret")
	if err != nil || strings.Contains(sealed, before) {
		t.Errorf("%q, %v", sealed, err)
	}
	if got, err := second.daemon.keyring.Open("here", sealed); got != "a secret" {
		t.Errorf("m2: %v", err)
	}
	same := func() bool { return second.daemon.keyring.State() == first.daemon.keyring.State() }
	testkit.Eventually(t, 20*time.Second, "m2 seals with it, too", same)
	if err := os.Remove(filepath.Join(second.daemon.cfg.Security.Dir, keyring.Name)); err != nil || same() {
		t.Fatalf("the file stays: %v", err)
	}
	testkit.Eventually(t, 20*time.Second, "m2 has it again when it was lost", same)
}
