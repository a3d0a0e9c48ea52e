package membership

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A node only learns of replaced CAs by its own requests for them; then it has a certificate of the signing one,
// and trusts the present ones, also after a restart.
func TestANodeFollowsWhenAuthoritiesAreReplaced(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	m := open(t, cfg)
	m.check = 10 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	testkit.Eventually(t, time.Minute, "the node has joined and renewed", func() bool { return m.Authorities() == c.by.Hash() && c.renewals.Load() > 0 })
	for by := c.by; by.Step() != pki.Drop; { // the last one would take another certificate of the server
		next, err := by.Next(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c.present.Store(&next)
		testkit.Eventually(t, time.Minute, "the node knows the result of step "+string(by.Step()), func() bool { return m.Authorities() == next.Hash() })
		if err := m.held.Load().own.Leaf.CheckSignatureFrom(next[pki.Client].Certificate); err != nil {
			t.Errorf("after step %s its certificate is of another authority: %v", by.Step(), err)
		}
		by = next
	}
	testkit.Eventually(t, time.Minute, "it is written down", func() bool {
		again, err := Open(cfg)
		return err == nil && again.Authorities() == m.Authorities()
	})
}

// A node that was away while the CAs were replaced trusts no netmaster any more. It reports that, and joins again
// as soon as it has a present token, with the same key.
func TestANodeThatKnowsNoNetmasterAnyMoreJoinsAnew(t *testing.T) {
	before := start(t)
	cfg := before.config(before.pin())
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Fatal(err)
	}
	by := before.replaced(t)
	c := startWith(t, by)
	cfg.Masters = func(context.Context) ([]string, error) { return []string{c.address}, nil }
	m := open(t, cfg)
	refused := explainUnknownAuthority(m.renew(t.Context()))
	if !fault.Is(refused, fault.Denied) || !strings.Contains(refused.Error(), "replaced while it was away") {
		t.Errorf("without a token of now: %v", refused)
	}
	if err := m.joinAnew(t.Context(), refused); err == nil || !strings.Contains(err.Error(), "another pin") || c.joins.Load() != 0 {
		t.Errorf("the former token is shown: %v", err)
	}
	cfg.TokenFile = c.config(c.pin()).TokenFile
	m = open(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "it has joined anew", func() bool { return m.Authorities() == by.Hash() })
	stop()
	if err := <-ended; err != nil || *c.keys.Load() != *before.keys.Load() {
		t.Errorf("%v, keys %s and %s", err, *before.keys.Load(), *c.keys.Load())
	}
}

// The same is true of one that runs all the time, and was only not reached: it does not wait until its
// certificate is due.
func TestARunningNodeThatWasNotReachedForARotationJoinsAnew(t *testing.T) {
	before := start(t)
	cfg := before.config(before.pin())
	var address atomic.Pointer[string]
	address.Store(&before.address)
	cfg.Masters = func(context.Context) ([]string, error) { return []string{*address.Load()}, nil }
	m := open(t, cfg)
	m.check = 10 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "the node has joined and renewed", func() bool { return m.TLS() != nil && before.renewals.Load() > 0 })
	by := before.replaced(t)
	c := startWith(t, by)
	text, err := os.ReadFile(c.config(c.pin()).TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.TokenFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	address.Store(&c.address)
	testkit.Eventually(t, time.Minute, "it has joined anew", func() bool { return m.Authorities() == by.Hash() })
	stop()
	if err := <-ended; err != nil || c.joins.Load() != 1 {
		t.Errorf("%v, %d joins", err, c.joins.Load())
	}
}

// replaced returns the CAs after a rotation, with none of the cluster's former ones.
func (c *cluster) replaced(t *testing.T) pki.Authorities {
	t.Helper()
	by := c.by
	for range 3 { // the steps of one
		next, err := by.Next(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		by = next
	}
	return by
}
