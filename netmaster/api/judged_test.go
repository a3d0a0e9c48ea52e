package api

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// doubt returns an API whose term is over as soon as the returned value is true, without notice: as in a process
// that was suspended and continues.
func doubt() (*atomic.Bool, func(*Config)) {
	over := new(atomic.Bool)
	return over, func(c *Config) {
		c.Trusted = func() error {
			if over.Load() {
				return fault.New(fault.NotLeader, "not the leader")
			}
			return nil
		}
	}
}

func TestNothingIsReadOnceTheClockSaysThatTheTermIsOver(t *testing.T) {
	over, config := doubt()
	b := ready(t, config)
	b.ok("POST", "networks/blue:web", web)
	over.Store(true)
	for _, r := range [][2]string{
		{"GET", "tenants"}, {"GET", "tenants/blue"}, {"HEAD", "tenants/blue"}, {"GET", "tenants/red"}, {"GET", "inspect/networks/blue:web"},
		{"GET", "tenants/?watch=true"}, {"DELETE", "tenants/blue"}, {"DELETE", "tenants/red"},
	} {
		path := r[1]
		if path == "tenants/?watch=true" {
			path = "/api/v1/tenants/?watch=true"
		}
		code, answer, header := b.do(r[0], path, "", "Accept", fault.ProblemType)
		if code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("%s %s: %d %s", r[0], r[1], code, answer)
		}
	}
	if n := b.api.watching.Load(); n != 0 {
		t.Errorf("%d watches are counted", n)
	}
	b.ok("POST", "tenants/green", `{"tenantName":"green"}`) // the store's fence decides, not the clock
}

func TestAWatchTellsNothingOnceTheClockSaysThatTheTermIsOver(t *testing.T) {
	over, config := doubt()
	b := ready(t, config)
	w := b.watchAt("tenants/?watch=true")
	for e, ok := w.next(); e.Type != "BOOKMARK"; e, ok = w.next() {
		if !ok {
			t.Fatal("the watch ended")
		}
	}
	over.Store(true)
	b.ok("POST", "tenants/green", `{"tenantName":"green"}`)
	if e, ok := w.next(); ok {
		t.Errorf("told %+v", e)
	}
	testkit.Eventually(t, 20*time.Second, "the watch is given back", func() bool { return b.api.watching.Load() == 0 })
}
