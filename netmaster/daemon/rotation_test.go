package daemon

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// Netmasters replace their CAs without a restart: a follower gets those of each step before the next one is done,
// and one that was away catches up.
func TestAuthoritiesAreReplacedWithoutARestart(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
	testkit.Eventually(t, time.Minute, "m2 has the authorities", second.daemon.certificates.hasAuthorities)
	before := first.daemon.certificates.authorities()
	old := certificate(t, before[pki.Client], identity.Identity{Kind: identity.Master, Name: "m9"}, x509.ExtKeyUsageClientAuth, time.Now())
	for _, step := range []pki.Step{pki.Add, pki.Switch, pki.Drop} {
		rotate(t, first, step)
	}
	now := first.daemon.certificates.authorities()
	testkit.Eventually(t, time.Minute, "m2 knows the last step", func() bool { return second.daemon.certificates.authorities().Hash() == now.Hash() })
	if given, err := pki.Load(second.daemon.cfg.Security.Dir); err != nil || given.Hash() != now.Hash() {
		t.Errorf("on the disk of m2: %v", err)
	}
	testkit.Eventually(t, time.Minute, "it is written down whom the keys were handed to", func() bool {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(cfg.Dir), "audit.log"))
		return err == nil && strings.Contains(string(text), `"principal":"master/m2","how":"certificate","source":"127.0.0.1","verb":"GET","key":"`+mastercfg.AuthoritiesPath+`"`)
	})
	roots := []*x509.Certificate{now[pki.API].Certificate}
	for at, n := range map[string]*node{"the leader": first, "m2": second} {
		if code, answer := exchange(t, clientOf(t, roots), "GET", "https://"+n.addr+"/version", ""); code != http.StatusOK {
			t.Errorf("%s: %d %s", at, code, answer)
		}
		if code, _ := exchange(t, clientOf(t, roots, old), "GET", "https://"+n.addr+"/version", ""); code != http.StatusUnauthorized {
			t.Errorf("%s believes a certificate of the old authority: %d", at, code)
		}
	}
	if code, _ := exchange(t, clientOf(t, roots), "GET", "https://"+first.addr+mastercfg.AuthoritiesPath, ""); code == http.StatusOK {
		t.Error("the keys are for everybody")
	}
	for _, kind := range []identity.Kind{identity.Node, identity.User} {
		c := certificate(t, now[pki.Client], identity.Identity{Kind: kind, Name: "x"}, x509.ExtKeyUsageClientAuth, time.Now())
		if code, _ := exchange(t, clientOf(t, roots, c), "GET", "https://"+second.addr+mastercfg.AuthoritiesPath, ""); code == http.StatusOK {
			t.Errorf("the keys are for a %s", kind)
		}
	}
}

// Changes based on the CAs before a step do not revert it: neither a renewal, nor another step, nor a late
// transfer.
func TestWhatWasReplacedStaysReplaced(t *testing.T) {
	_, p := served(t)
	seen := p.current.Load()
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
	now := p.current.Load()
	if err := p.renew(now); err != nil || p.current.Load() == now || p.authorities().Hash() != next.Hash() {
		t.Errorf("the certificates of now are not renewed: %v", err)
	}
}

// CAs made by a clock that was ahead do not sign yet. They are not switched to: a netmaster that has only them on
// its disk starts without certificates.
func TestAuthoritiesThatDoNotSignYetAreNotSwitchedTo(t *testing.T) {
	_, p := served(t)
	first := p.authorities()
	both, err := first.Next(time.Now().Add(48 * time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.replace(first, both); err != nil {
		t.Fatal(err)
	}
	others, err := both.Next(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.replace(both, others); !fault.Is(err, fault.Conflict) || p.authorities().Hash() != both.Hash() {
		t.Errorf("they are switched to: %v", err)
	}
	if written, err := pki.Load(p.cfg.Dir); err != nil || written.Hash() != both.Hash() {
		t.Errorf("they are on the disk: %v", err)
	}
}

// rotate does a step at the leader, once all parties have the result of the former one.
func rotate(t *testing.T, at *node, step pki.Step) {
	t.Helper()
	var done mastercfg.Rotation
	testkit.Eventually(t, time.Minute, "step "+string(step)+" may be done", func() bool {
		code, answer := exchange(t, overSocket(t, at.daemon.cfg.Security.Socket), "POST", "http://localhost"+mastercfg.RotatePath, `{}`)
		if code != http.StatusOK && code != http.StatusConflict {
			t.Fatalf("%d %s", code, answer)
		}
		return code == http.StatusOK && json.Unmarshal([]byte(answer), &done) == nil
	})
	if done.Step != string(step) || done.Done != (step == pki.Drop) || done.Authorities != at.daemon.certificates.authorities().Hash() {
		t.Errorf("step %s: %+v", step, done)
	}
}

// A netmaster that was down while the CAs were replaced leads with the old ones only while no other has those of
// the record. Then it yields, and joins again with the token in its file.
func TestANetmasterThatWasAwayWhileAuthoritiesWereReplacedJoinsAnew(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
	testkit.Eventually(t, time.Minute, "m2 has the authorities", second.daemon.certificates.hasAuthorities)
	away := second.daemon.cfg.Security
	second.shut()
	for _, step := range []pki.Step{pki.Add, pki.Switch, pki.Drop} {
		rotate(t, first, step)
	}
	now := first.daemon.certificates.authorities().Hash()
	away.TokenFile = tokenFile(t, cfg.Socket, "master")
	first.shut()

	second = run(t, func(c *Config) { c.Security = away })
	leader(t, second)
	if second.daemon.certificates.authorities().Hash() == now {
		t.Error("it has the authorities of now, of nobody")
	}
	first = run(t, func(c *Config) { c.Security = cfg })
	testkit.Eventually(t, time.Minute, "the one with the authorities of the record leads", func() bool { return first.leads() && !second.leads() })
	testkit.Eventually(t, time.Minute, "the other one has them, too", func() bool { return second.daemon.certificates.authorities().Hash() == now })
}

// The key that encrypts secrets is replaced while all netmasters run: a follower gets the new one before it is
// used, and can decrypt with it.
func TestTheKeyOfSecretsIsReplacedWithoutARestart(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "master"))
	before := first.daemon.keyring.State()
	testkit.Eventually(t, time.Minute, "m2 has the keyring", func() bool { return before != "" && second.daemon.keyring.State() == before })
	for _, want := range []string{"add", "turn"} {
		var done mastercfg.KeysRotation
		testkit.Eventually(t, time.Minute, "step "+want+" may be done", func() bool {
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
	testkit.Eventually(t, time.Minute, "m2 seals with it, too", same)
	if err := os.Remove(filepath.Join(second.daemon.cfg.Security.Dir, keyring.Name)); err != nil { // it may exist again at once
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, "m2 has it again when it was lost", same)
}

// While the leader does not have the keys that the record names, it is not asked for them every second. Another
// leader, or another record, causes a try at once.
func TestTriesToKeepUpAreSpaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		again := tries{pace: retry.NewPacer(keepUpEvery, longestKeepUp)}
		within := func(seconds int, at aim) (count int) {
			for range seconds {
				if again.due(at) {
					count++
				}
				time.Sleep(time.Second)
			}
			return count
		}
		first := aim{leader: "m1"}
		if got := within(600, first); got < 12 || got > 30 {
			t.Errorf("%d tries within 10 minutes", got)
		}
		first.record.Keyring = "another"
		for _, at := range []aim{first, {leader: "m2"}, first} {
			if got := within(4, at); got < 2 {
				t.Errorf("%d tries at the first seconds of %+v", got, at)
			}
		}
	})
}

// A fault that joining cannot repair does not cause another join. The log has the remedy.
func TestAFollowerWithADamagedKeyringDoesNotJoinAnew(t *testing.T) {
	store := storetest.Open(t)
	_, cfg := secured(t)
	log, hook := logtest.NewNullLogger()
	second := run(t, func(c *Config) {
		c.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Secure: true, Name: "m2", TokenFile: tokenFile(t, cfg.Socket, "master")}
		c.Log = log.WithField("netmaster", "m2")
	})
	testkit.Eventually(t, time.Minute, "m2 has the keyring", func() bool { return second.daemon.keyring.State() != "" })
	before, err := store.Get(t.Context(), mastercfg.MasterPrefix+"m2")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(second.daemon.cfg.Security.Dir, keyring.Name), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, "it asks for the keyring, and again", func() bool {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(cfg.Dir), "audit.log"))
		return err == nil && strings.Count(string(text), `"principal":"master/m2","how":"certificate","source":"127.0.0.1","verb":"GET","key":"`+mastercfg.AuthoritiesPath+`"`) >= 2
	})
	if now, err := store.Get(t.Context(), mastercfg.MasterPrefix+"m2"); err != nil || now.ModRevision != before.ModRevision {
		t.Errorf("it has joined anew: %v", err)
	}
	var said string
	for _, e := range hook.AllEntries() {
		if text, err := e.String(); err == nil {
			said += text
		}
	}
	if !strings.Contains(said, "moved away") || strings.Contains(said, "token create") {
		t.Errorf("the log says: %s", said)
	}
}

// A netmaster with the CAs and a keyring other than the record's leads if only a netmaster without CAs has that
// keyring: otherwise there would be no leader.
func TestAuthoritiesAndKeyringOnDifferentNetmasters(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	named := first.daemon.keyring.State()
	if err := os.Remove(filepath.Join(cfg.Dir, keyring.Name)); err != nil {
		t.Fatal(err)
	}
	other := objdb.Service{ServiceName: mastercfg.MasterService, HostAddr: "10.0.0.3", Port: 1, Keyring: named}
	registered, err := first.daemon.db.Register(t.Context(), time.Minute, other)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := registered.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	has := func(s objdb.Service) func() bool {
		return func() bool {
			others, err := first.daemon.otherNetmasters(t.Context())
			return err == nil && len(others) == 1 && others[0].Authorities == s.Authorities
		}
	}
	testkit.Eventually(t, time.Minute, "the other one is registered", has(other))
	if !first.daemon.upToDate(t.Context()) {
		t.Error("nobody leads")
	}
	other.Authorities = first.daemon.certificates.authorities().Hash()
	registered.Update(other)
	testkit.Eventually(t, time.Minute, "the other one has the authorities", has(other))
	if first.daemon.upToDate(t.Context()) {
		t.Error("it leads in the place of the one that has both")
	}
}
