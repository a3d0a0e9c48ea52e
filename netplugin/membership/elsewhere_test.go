package membership

import (
	"context"
	"net/http/httptest"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// A node that is started with another tunnel address joins with it by itself if it has a token, with the key that it
// has. Without one it renews its certificate as ever; and it needs none when it is started with the former address.
func TestANodeWithOtherAddressesJoinsWithThem(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	cfg.Control, cfg.VTEPs = "192.0.2.1", []string{"198.51.100.1"}
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := *c.keys.Load()
	token := cfg.TokenFile
	for _, next := range []struct {
		vtep, token string
		joins       int32
	}{{"198.51.100.1", token, 1}, {"198.51.100.2", "", 1}, {"198.51.100.2", token, 2}, {"198.51.100.2", token, 2}} {
		cfg.VTEPs, cfg.TokenFile = []string{next.vtep}, next.token
		renewed := c.renewals.Load()
		m := open(t, cfg)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		testkit.Eventually(t, time.Minute, "the node has renewed its membership", func() bool {
			return c.renewals.Load() > renewed && c.joins.Load() >= next.joins
		})
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if c.joins.Load() != next.joins || *c.keys.Load() != first {
			t.Errorf("started with tunnels at %s and token %q: it has joined %d times, want %d, with its first key: %v",
				next.vtep, next.token, c.joins.Load(), next.joins, *c.keys.Load() == first)
		}
	}
	if at := *c.joinedAt.Load(); !slices.Equal(at, cfg.VTEPs) {
		t.Errorf("it has joined with tunnels at %v", at)
	}
}

// The join with other addresses is tried again, for instance until another node has given its tunnel address free or
// there is a valid token. Meanwhile the node has its membership.
func TestANodeWithOtherAddressesTriesToJoinAgain(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(cfg.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.TokenFile, []byte("cut off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.VTEPs = []string{"198.51.100.2"}
	m := open(t, cfg)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "the node has renewed its certificate", func() bool { return c.renewals.Load() > 0 })
	if m.TLS() == nil {
		t.Error("the node has no membership")
	}
	if err := os.WriteFile(cfg.TokenFile, text, 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, "the node has joined with its addresses", func() bool { return slices.Equal(*c.joinedAt.Load(), cfg.VTEPs) })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A node that is removed or rekeyed while it runs learns it from the refusal of its registration, and joins anew with
// a new key; and again when it is removed again. The same refusal for longer is no reason.
func TestANodeThatIsRemovedWhileItRunsJoinsAnew(t *testing.T) {
	c := start(t)
	cfg := c.config(c.pin())
	if err := open(t, cfg).join(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A netmaster that does not answer, whether it is asked before or after the others, is no reason to wait.
	gone := httptest.NewServer(nil)
	gone.Close()
	cfg.Masters = func(context.Context) ([]string, error) {
		return []string{gone.Listener.Addr().String(), c.address, gone.Listener.Addr().String()}, nil
	}
	m := open(t, cfg)
	m.check = 10 * time.Millisecond
	var refusal atomic.Pointer[error]
	var looked atomic.Int32
	m.RenewAfter(func() error {
		looked.Add(1)
		if err := refusal.Load(); err != nil {
			return *err
		}
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	testkit.Eventually(t, time.Minute, "the node has its certificate", func() bool { return looked.Load() > 0 })
	refused := error(fault.New(fault.Denied, "node h1 has not joined"))
	for range 2 {
		key := *c.keys.Load()
		c.useless.Store(&key)
		refusal.Store(&refused)
		testkit.Eventually(t, time.Minute, "the node has joined with another key", func() bool { return *c.keys.Load() != key })
		// Between two checks, nobody has seen that its registration was accepted.
	}
	seen := looked.Load()
	testkit.Eventually(t, time.Minute, "the refusal is seen since it has joined", func() bool { return looked.Load() > seen+5 })
	joined, renewed := c.joins.Load(), c.renewals.Load()
	seen = looked.Load()
	testkit.Eventually(t, time.Minute, "the refusal is seen again", func() bool { return looked.Load() > seen+5 })
	if c.joins.Load() != joined || c.renewals.Load() != renewed {
		t.Errorf("for the same refusal it joined %d times more, and renewed %d times", c.joins.Load()-joined, c.renewals.Load()-renewed)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
