package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
)

const globalValue = `{"fwd-mode":"routing","pvt-subnet":"172.19.0.0/16","arp-mode":"proxy"}`

// blueState is netmaster's state of a tenant with one endpoint here and one on another node.
var blueState = []string{
	mastercfg.GlobalConfigKey, globalValue,
	vrfKey("blue"), `{"vrf":1}`,
	netKey("web.blue"), netValue("blue", ""),
	epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2"),
	epKey("web.blue-2"), epValue("web.blue", "node2", "10.1.0.3"),
	vtepKey("192.0.2.2"), vtepValue("node2", "192.0.2.2"),
	ruleKey(blueRule), ruleValue(blueRule, "allow"),
}

var blueObjects = []string{"network web.blue", "endpoint web.blue-1", "endpoint web.blue-2", "rule " + blueRule}

// running is a running agent and the means to stop it.
type running struct {
	*Agent
	stop func()
}

func startAgent(t testing.TB, db *objdb.DB, driver drivers.NetworkDriver, adjust ...func(*Config)) *running {
	t.Helper()
	return runAgent(t, newAgent(db, driver, adjust...))
}

func newAgent(db *objdb.DB, driver drivers.NetworkDriver, adjust ...func(*Config)) *Agent {
	config := Config{
		HostLabel: me, VTEP: netip.MustParseAddr("192.0.2.1"), FwdMode: "routing", Driver: driver, DB: db,
		Metrics: prometheus.NewRegistry(), Log: quiet, Linger: time.Nanosecond, AnnounceWait: time.Nanosecond,
	}
	for _, change := range adjust {
		change(&config)
	}
	return New(config)
}

// runAgent runs an agent until stop is called or the test ends.
func runAgent(t testing.TB, a *Agent) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	r := &running{Agent: a}
	r.stop = func() {
		cancel()
		if err, first := <-done; first && err != nil {
			t.Error(err)
		}
		r.stop = func() {}
	}
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *running) awaitReady(t testing.TB) {
	t.Helper()
	eventually(t, "agent is ready", r.Ready)
}

func expectObjects(t *testing.T, driver *recorder, why string, want ...string) {
	t.Helper()
	eventually(t, why, func() error {
		if got := driver.has(); !slices.Equal(got, want) {
			return fmt.Errorf("switch has %q, want %q", got, want)
		}
		return nil
	})
}
