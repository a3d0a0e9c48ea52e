package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/utils/fault"
)

// These tests run the agent with a real store and a real switch.

// openSwitch is Open vSwitch with an underlay.
type openSwitch struct {
	*ovstest.Switch
	t     testing.TB
	netns netns.NsHandle
}

func newSwitch(t testing.TB) *openSwitch {
	t.Helper()
	s := &openSwitch{Switch: ovstest.Start(t), t: t}
	s.Exec("ip", "link", "add", "under0", "type", "veth", "peer", "name", "under1")
	s.Exec("ip", "address", "add", "192.0.2.1/24", "dev", "under0")
	s.Exec("ip", "link", "set", "under0", "mtu", "1600", "up")
	var err error
	if s.netns, err = netns.GetFromName(s.Netns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.netns.Close() })
	return s
}

// startNode starts a driver and an agent on it; its stop ends both.
func (s *openSwitch) startNode(store *etcd) *running {
	s.t.Helper()
	driver, err := ovsd.New(ovsd.Config{RunDir: s.RunDir, VTEP: netip.MustParseAddr("192.0.2.1"), NetNS: &s.netns, Log: quiet})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = driver.Run(ctx) // ends with the context's error
	}()
	a := startAgent(s.t, store.db, driver, func(c *Config) { c.ReapInterval, c.ReapGrace = 100*time.Millisecond, time.Second })
	stopAgent := a.stop
	a.stop = func() {
		stopAgent()
		cancel()
		<-ended
	}
	return a
}

// flows returns the bridge's flows without cookies, which differ from round to round.
func (s *openSwitch) flows() string {
	s.t.Helper()
	var lines []string
	for _, line := range strings.Split(s.Ofctl("--no-stats", "--no-names", "dump-flows", ovsd.DefaultBridge), "\n") {
		if _, flow, ok := strings.Cut(strings.TrimSpace(line), ", "); ok && strings.HasPrefix(strings.TrimSpace(line), "cookie=") {
			line = flow
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	slices.Sort(lines) // the order of flows with one priority is random
	return strings.Join(lines, "\n")
}

func (s *openSwitch) expectFlows(why string, mention ...string) {
	s.t.Helper()
	eventually(s.t, why, func() error {
		flows := s.flows()
		for _, text := range mention {
			present := !strings.HasPrefix(text, "no ")
			if strings.Contains(flows, strings.TrimPrefix(text, "no ")) != present {
				return fmt.Errorf("flows do not have what %q says:\n%s", text, flows)
			}
		}
		return nil
	})
}

func TestStateInTheStoreBecomesFlowsInTheSwitch(t *testing.T) {
	store, sw := newEtcd(t), newSwitch(t)
	node := sw.startNode(store)
	store.start()
	store.put(blueState...)
	node.awaitReady(t)
	sw.expectFlows("remote endpoint", "10.1.0.3")

	const id = "web.blue-7"
	revision := store.put(epKey(id), epValue("web.blue", me, "10.1.0.8"))
	if _, err := node.Attach(t.Context(), id, revision); !fault.Is(err, fault.NotFound) {
		t.Errorf("without a port: %v", err)
	}
	if _, err := node.PreparePort(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	at, err := node.Attach(t.Context(), id, revision)
	if err != nil {
		t.Fatal(err)
	}
	if flows := sw.flows(); !strings.Contains(flows, "10.1.0.8") {
		t.Errorf("attached without flows:\n%s", flows)
	}
	if ports := sw.Vsctl("list-ports", ovsd.DefaultBridge); !strings.Contains(ports, at.Port.HostLink) {
		t.Errorf("port %s is not among\n%s", at.Port.HostLink, ports)
	}

	before := sw.flows()
	node.stop()
	if after := sw.flows(); after != before {
		t.Errorf("flows changed when the agent stopped:\n%s\nbefore:\n%s", after, before)
	}
	node = sw.startNode(store)
	node.awaitReady(t)
	if again, err := node.Attach(t.Context(), id, revision); err != nil || again.Port.HostLink != at.Port.HostLink {
		t.Errorf("after the restart: %+v, %v", again.Port, err)
	}
	eventually(t, "restarted agent has the same flows", func() error {
		if after := sw.flows(); after != before {
			return fmt.Errorf("flows:\n%s\nbefore:\n%s", after, before)
		}
		return nil
	})

	store.stop()
	if after := sw.flows(); after != before {
		t.Errorf("flows changed when the store went away:\n%s\nbefore:\n%s", after, before)
	}
	store.start()
	store.del(epKey("web.blue-2"))
	sw.expectFlows("remote endpoint deleted", "no 10.1.0.3", "10.1.0.8")

	// The record is deleted by another client: the container is served until it is detached; then flows, port and
	// report are removed.
	store.del(epKey(id))
	expectUnannounced(t, node, id)
	if flows := sw.flows(); !strings.Contains(flows, "10.1.0.8") {
		t.Errorf("flows of an attached container are gone:\n%s", flows)
	}
	if err := node.Detach(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	sw.expectFlows("local endpoint deleted", "no 10.1.0.8")
	eventually(t, "nothing is left of it", func() error {
		if ports := sw.Vsctl("list-ports", ovsd.DefaultBridge); strings.Contains(ports, at.Port.HostLink) {
			return fmt.Errorf("ports: %s", ports)
		}
		if keys := store.keys(mastercfg.OperRoot); len(keys) > 0 {
			return fmt.Errorf("keys: %q", keys)
		}
		return nil
	})
}

func TestSwitchRestartedGetsItsFlowsBack(t *testing.T) {
	store, sw := newEtcd(t).start(), newSwitch(t)
	store.put(blueState...)
	node := sw.startNode(store)
	node.awaitReady(t)
	if _, err := node.PreparePort(t.Context(), "web.blue-1", 0); err != nil {
		t.Fatal(err)
	}
	if _, err := node.Attach(t.Context(), "web.blue-1", 0); err != nil {
		t.Fatal(err)
	}
	before := sw.flows()
	sw.KillVswitchd()
	store.put(epKey("web.blue-4"), epValue("web.blue", "node2", "10.1.0.5"))
	sw.StartVswitchd()
	sw.expectFlows("old and new flows", "10.1.0.2", "10.1.0.3", "10.1.0.5")
	store.del(epKey("web.blue-4"))
	eventually(t, "same flows as before", func() error {
		if after := sw.flows(); after != before {
			return fmt.Errorf("flows:\n%s\nbefore:\n%s", after, before)
		}
		return nil
	})
}
