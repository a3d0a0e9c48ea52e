package membership

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestANodeJoinsOnceAndIsTheSameAfterARestart(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	m := open(t, cfg)
	if m.TLS() != nil {
		t.Error("TLS before the node has joined")
	}
	if err := m.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(cfg.TokenFile); err != nil {
		t.Fatal(err)
	}
	again := open(t, cfg)
	if again.TLS() == nil || !again.key.Equal(m.key) {
		t.Fatal("the node has forgotten who it is")
	}
	if least := again.TLS().MinVersion; least != tls.VersionTLS13 {
		t.Errorf("netmasters are talked to by %s", tls.VersionName(least))
	}
	if err := again.renew(t.Context()); err != nil {
		t.Error(err)
	}
	for _, name := range []string{keyFile, certificateFile, AuthorityFile} {
		if info, err := os.Stat(filepath.Join(cfg.Dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if c.joins.Load() != 1 {
		t.Errorf("%d joins", c.joins.Load())
	}
}

// A node that got no answer asks again with the same key, also as another process.
func TestALostAnswerIsAskedForWithTheSameKey(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	c.lose.Store(true)
	if err := open(t, cfg).join(t.Context()); err == nil {
		t.Fatal("the answer came")
	}
	first := *c.keys.Load()
	m := open(t, cfg)
	if err := m.join(t.Context()); err != nil {
		t.Fatal(err)
	}
	if *c.keys.Load() != first {
		t.Error("with another key")
	}
}

// A token that another issuer vouches for is only sent to a server with the configured CAs.
func TestAVouchedTokenIsShownToTheKnownAuthorities(t *testing.T) {
	c, others := start(t), start(t)
	cfg := c.config(c.pin())
	if err := os.WriteFile(cfg.TokenFile, []byte("a.b.c\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	cfg.AuthoritiesFile = filepath.Join(t.TempDir(), "authorities.crt")
	for by, joins := range map[*cluster]bool{others: false, c: true} {
		if err := os.WriteFile(cfg.AuthoritiesFile, pki.EncodeCertificates(by.by[pki.API].Certificate), 0o600); err != nil {
			t.Fatal(err)
		}
		before := c.joins.Load()
		if err := open(t, cfg).join(t.Context()); (err == nil) != joins || c.joins.Load() > before != joins {
			t.Errorf("want that it joins: %v; %v, %d joins", joins, err, c.joins.Load())
		}
	}
}

// Another cluster's server does not receive the token.
func TestTheTokenIsNotShownToAnotherCluster(t *testing.T) {
	c, others := start(t), start(t)
	cfg := c.config(others.pin())
	err := open(t, cfg).join(t.Context())
	if err == nil || !strings.Contains(err.Error(), "another pin") || c.joins.Load() != 0 {
		t.Errorf("%v, %d joins", err, c.joins.Load())
	}
	// Nor does a server that presents the CA without its key.
	thief := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != mastercfg.AuthorityPath {
			t.Errorf("the thief is asked for %s", r.URL.Path)
		}
		_ = json.NewEncoder(w).Encode(mastercfg.Authority{Authorities: string(pki.EncodeCertificates(c.by[pki.API].Certificate))})
	}))
	defer thief.Close()
	cfg = c.config(c.pin())
	cfg.Masters = func(context.Context) ([]string, error) { return []string{thief.Listener.Addr().String()}, nil }
	if err := open(t, cfg).join(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
	// The next netmaster is asked.
	cfg.Masters = func(context.Context) ([]string, error) {
		return []string{thief.Listener.Addr().String(), c.address}, nil
	}
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestRunJoinsAndRenews(t *testing.T) {
	c := start(t)
	m := open(t, c.config(c.pin()))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "the node has joined and renewed", func() bool { return m.TLS() != nil && c.renewals.Load() > 0 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What a netmaster has signed whose clock was ahead begins in days: the node asks for another one until it has one
// that is good now.
func TestACertificateThatHasNotBegunIsRenewed(t *testing.T) {
	c := start(t)
	c.ahead.Store(int64(9 * 24 * time.Hour))
	m := open(t, c.config(c.pin()))
	m.check = 10 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	good := func() bool { return m.TLS() != nil && !time.Now().Before(m.held.Load().own.Leaf.NotBefore) }
	testkit.Eventually(t, time.Minute, "the node has renewed what begins later", func() bool { return c.renewals.Load() > 1 && !good() })
	c.ahead.Store(0)
	testkit.Eventually(t, time.Minute, "the certificate is good", good)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A node that was away for too long joins again as soon as it has a token.
func TestANodeThatMayNotRenewJoinsAnew(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := *c.keys.Load()
	c.removed.Store(true)
	without := cfg
	without.TokenFile = ""
	if err := open(t, without).joinAnew(t.Context(), fault.New(fault.Denied, "away")); err == nil || !strings.Contains(err.Error(), "away; to join anew it needs --join-token-file") {
		t.Errorf("without a token: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	again := open(t, cfg)
	go func() { ended <- again.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "the node has joined anew", func() bool { return c.joins.Load() == 2 })
	stop()
	if err := <-ended; err != nil || *c.keys.Load() != first {
		t.Errorf("%v, another key: %t", err, *c.keys.Load() != first)
	}
}

// A name belongs to a key. When a node's name is changed, the log names the change, and both remedies.
func TestANodeWithAnotherNameThanItJoinedWithSaysSo(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.removed.Store(true) // as the cluster has no node of the new name
	cfg.TokenFile, cfg.Host = "", "h9"
	log, hook := logtest.NewNullLogger()
	cfg.Log = logrus.NewEntry(log)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	again := open(t, cfg)
	go func() { ended <- again.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "it is refused", func() bool { return hook.LastEntry() != nil })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	const want = "the node has joined as h1, and is called h9 now: start it with --host h1 again, or, if it is to be h9, give its tunnel end free (netctl node rm h1), and it a join token (--join-token-file): "
	if told := fmt.Sprint(hook.AllEntries()[0].Data[logrus.ErrorKey]); !strings.HasPrefix(told, want) || !strings.Contains(told, "node h1 was away; to join anew it needs") {
		t.Errorf("told %q, want %q", told, want)
	}
	cfg.Host = "h1"
	if err := open(t, cfg).explainRenamed(errors.New("away")); err.Error() != "away" {
		t.Errorf("as before: %v", err)
	}
}

// A node whose key was revoked joins with another one, whenever it learns of it, and keeps its certificate until
// it has joined.
func TestANodeWhoseKeyWasTakenBackJoinsWithAnother(t *testing.T) {
	for name, hears := range map[string]func(*Member) error{
		"as it renews": func(m *Member) error { return m.joinAnew(t.Context(), m.renew(t.Context())) },
		"as it joins":  func(m *Member) error { return m.join(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t)
			cfg := c.config(c.pin())
			if err := open(t, cfg).join(t.Context()); err != nil {
				t.Fatal(err)
			}
			first := *c.keys.Load()
			c.useless.Store(&first)
			c.lose.Store(true)
			if err := hears(open(t, cfg)); err == nil {
				t.Fatal("the answer came")
			}
			second := *c.keys.Load()
			if second == first {
				t.Fatal("with the same key")
			}
			m := open(t, cfg) // as the one that it was
			if now, err := pki.PublicKeyHash(&m.key.PublicKey); err != nil || now != first || m.TLS() == nil {
				t.Errorf("before it has joined: %v, the former key: %t", err, now == first)
			}
			if err := hears(m); err != nil || *c.keys.Load() != second {
				t.Errorf("%v, the key of the lost answer: %t", err, *c.keys.Load() == second)
			}
			again := open(t, cfg)
			if now, err := pki.PublicKeyHash(&again.key.PublicKey); err != nil || now != second || again.TLS() == nil {
				t.Errorf("after a restart: %v, the key that has joined: %t", err, now == second)
			}
			// Revoked before the answer arrived: the next try has another one.
			c.useless.Store(&second)
			if err := os.WriteFile(filepath.Join(cfg.Dir, nextKeyFile), must(os.ReadFile(filepath.Join(cfg.Dir, keyFile))), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := hears(again); err == nil {
				t.Error("joined with a key that was taken back")
			}
			if err := hears(again); err != nil || *c.keys.Load() == second {
				t.Errorf("the next try: %v", err)
			}
		})
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	c := start(t)
	for name, damage := range map[string]func(Config) error{
		"key cut off":            func(cfg Config) error { return os.Truncate(filepath.Join(cfg.Dir, keyFile), 50) },
		"key of somebody else":   func(cfg Config) error { return os.Remove(filepath.Join(cfg.Dir, keyFile)) },
		"key for others to read": func(cfg Config) error { return os.Chmod(filepath.Join(cfg.Dir, keyFile), 0o644) },
		"no certificate":         func(cfg Config) error { return os.Remove(filepath.Join(cfg.Dir, certificateFile)) },
		"certificate cut off":    func(cfg Config) error { return os.Truncate(filepath.Join(cfg.Dir, certificateFile), 50) },
		"authority cut off":      func(cfg Config) error { return os.Truncate(filepath.Join(cfg.Dir, AuthorityFile), 50) },
	} {
		cfg := c.config(c.pin())
		if err := open(t, cfg).join(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := damage(cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(cfg); err == nil || strings.Contains(err.Error(), "BEGIN") || !strings.Contains(err.Error(), "away: the node then joins") {
			t.Errorf("%s: %v", name, err)
		}
		if strings.Contains(name, "key") {
			continue
		}
		if err := os.Remove(filepath.Join(cfg.Dir, AuthorityFile)); err != nil {
			t.Fatal(err)
		}
		if err := open(t, cfg).join(t.Context()); err != nil {
			t.Errorf("%s, after what the error says: %v", name, err)
		}
	}
	cfg := c.config(c.pin())
	if err := os.Chmod(cfg.TokenFile, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := open(t, cfg).join(t.Context()); err == nil || !strings.Contains(err.Error(), "others can read") {
		t.Errorf("a token that others can read: %v", err)
	}
}
