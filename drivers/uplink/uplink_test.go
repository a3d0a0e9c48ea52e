package uplink_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/test/testkit"
)

// node is a switch whose bridge "pods" has a host on VLAN 7, 10.1.7.2, and behind
// whose links up0 and up1 a physical switch has another, 10.1.7.1.
type node struct {
	*ovstest.Switch
	t       *testing.T
	outside *ovstest.Switch
	ns      netns.NsHandle
	state   string // directory
}

const pods = "pods"

func newNode(t *testing.T) *node {
	n := &node{Switch: ovstest.Start(t), t: t, outside: ovstest.Start(t), state: t.TempDir()}
	var err error
	if n.ns, err = netns.GetFromName(n.Netns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.ns.Close() })
	n.AddBridge(pods, "fail_mode=standalone")
	n.Vsctl("add-port", pods, uplink.PatchPort, "--", "set", "interface", uplink.PatchPort, "type=patch", "options:peer="+uplink.PeerPort)
	n.outside.AddBridge("sw", "fail_mode=standalone")
	for s, where := range map[*ovstest.Switch][2]string{n.Switch: {pods, "10.1.7.2/24"}, n.outside: {"sw", "10.1.7.1/24"}} {
		s.Vsctl("add-port", where[0], "host", "tag=7", "--", "set", "interface", "host", "type=internal")
		s.Exec("ip", "address", "add", where[1], "dev", "host")
		s.Exec("ip", "link", "set", "host", "up")
	}
	n.wire("up0")
	n.wire("up1")
	return n
}

// wire lays a cable to the physical switch.
func (n *node) wire(name string) {
	n.t.Helper()
	n.outside.Exec("ip", "link", "add", "to-"+name, "type", "veth", "peer", "name", name, "netns", n.Netns)
	n.outside.Exec("ip", "link", "set", "to-"+name, "up")
}

func (n *node) config(mode uplink.BondMode, links ...string) uplink.Config {
	return uplink.Config{RunDir: n.RunDir, Serves: pods, Links: links, Mode: mode, NetNS: &n.ns, StateDir: n.state}
}

// keep runs a keeper of the uplinks until stop.
func (n *node) keep(mode uplink.BondMode, links ...string) (b *uplink.Bridge, stop func()) {
	n.t.Helper()
	return n.run(n.config(mode, links...))
}

// run runs a keeper until stop.
func (n *node) run(config uplink.Config) (b *uplink.Bridge, stop func()) {
	n.t.Helper()
	b, err := uplink.New(config)
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			n.t.Errorf("Run returned %v", err)
		}
	})
	n.t.Cleanup(stop)
	return b, stop
}

// eventually waits for a condition, long enough for a machine that is busy.
func (n *node) eventually(what string, condition func() bool) {
	n.t.Helper()
	testkit.Eventually(n.t, time.Minute, what, condition)
}

// reaches waits until the physical switch answers.
func (n *node) reaches(when string) {
	n.t.Helper()
	defer func() {
		if n.t.Failed() {
			n.t.Log(n.Appctl("bond/show"), n.Appctl("fdb/show", uplink.DefaultBridge), n.outside.Appctl("fdb/show", "sw"))
		}
	}()
	n.eventually("10.1.7.1 answers "+when, func() bool {
		_, err := n.Try("ping", "-c1", "-W1", "-n", "-q", "10.1.7.1")
		return err == nil
	})
}

func (n *node) says(b *uplink.Bridge, text string) {
	n.t.Helper()
	n.eventually(fmt.Sprintf("the problem is %q", text), func() bool {
		problem := b.Problem()
		return problem == text || text != "" && strings.Contains(problem, text)
	})
}

func TestBondsGoOnWithOneLeg(t *testing.T) {
	for mode, partner := range map[uplink.BondMode][]string{
		uplink.ActiveBackup: nil,
		uplink.BalanceSLB:   nil,
		uplink.BalanceTCP:   {"bond_mode=balance-tcp", "lacp=active"},
		"":                  nil, // balance-tcp with a switch that does not speak LACP
	} {
		t.Run("mode "+string(mode), func(t *testing.T) {
			t.Parallel() // they wait most of the time
			n := newNode(t)
			if partner != nil {
				n.outside.Vsctl(append([]string{"add-bond", "sw", "team", "to-up0", "to-up1"}, partner...)...)
			} else {
				n.outside.Vsctl("add-port", "sw", "to-up0", "--", "add-port", "sw", "to-up1")
			}
			b, _ := n.keep(mode, "up0", "up1")
			n.reaches("by two legs")
			if partner != nil {
				n.eventually("the sides have agreed", func() bool { return strings.Contains(n.Appctl("lacp/show", "uplinkPort"), "status: active negotiated") })
			}
			if mode != "" && !strings.Contains(n.Appctl("bond/show", "uplinkPort"), "bond_mode: "+string(mode)) {
				t.Error(n.Appctl("bond/show", "uplinkPort"))
			}
			for _, leg := range []string{"up0", "up1"} {
				n.outside.Exec("ip", "link", "set", "to-"+leg, "down")
				n.says(b, "uplink "+leg+" has no carrier")
				n.reaches("without " + leg)
				n.outside.Exec("ip", "link", "set", "to-"+leg, "up")
				n.says(b, "")
			}
			n.reaches("by two legs again")
		})
	}
}

func TestALegThatVanishesComesBack(t *testing.T) {
	n := newNode(t)
	n.outside.Vsctl("add-port", "sw", "to-up0", "--", "add-port", "sw", "to-up1")
	b, stop := n.keep(uplink.ActiveBackup, "up1", "up0", "up2")
	n.says(b, "uplink up2: there is no such link")
	n.eventually("each link has its state", func() bool {
		return maps.Equal(b.States(), map[string]string{"up0": "", "up1": "", "up2": "uplink up2: there is no such link"})
	})
	n.reaches("by the legs that are there")
	n.Exec("ip", "link", "delete", "up0")
	n.says(b, "uplink up0: there is no such link")
	n.reaches("without up0")
	n.Exec("ip", "link", "delete", "up1")
	n.says(b, "uplink up1: there is no such link")
	for len(b.Returned()) > 0 {
		<-b.Returned()
	}
	n.wire("up1")
	n.outside.Vsctl("del-port", "to-up1") // in a transaction of its own, so that the switch notices
	n.outside.Vsctl("add-port", "sw", "to-up1")
	n.reaches("by up1 again")
	returns := func(what string) {
		t.Helper()
		n.eventually("others are told that up1 has returned: "+what, func() bool { return len(b.Returned()) > 0 })
		n.says(b, "uplink up0: there is no such link") // and nothing more
		for len(b.Returned()) > 0 {
			<-b.Returned()
		}
	}
	returns("from nowhere")
	n.outside.Exec("sh", "-ec", "ip link set to-up1 down; ip link set to-up1 up")
	returns("after a moment")
	n.AddBridge("br-other")
	n.Vsctl("add-port", "br-other", "up2", "--", "set", "interface", "up2", "type=internal")
	n.says(b, "uplink up2 is a port of bridge br-other")

	// Packets pass without netplugin.
	stop()
	n.KillVswitchd()
	n.StartVswitchd()
	n.reaches("without a keeper")

	// Two become one.
	b, _ = n.keep("", "up1")
	n.says(b, "")
	n.reaches("by one uplink")
	n.eventually("only up1 is left", func() bool {
		return strings.Contains(n.Vsctl("list-ifaces", uplink.DefaultBridge), "up1") && !strings.Contains(n.Vsctl("list-ifaces", uplink.DefaultBridge), "up0")
	})
}

// ovs-vswitchd, which changes another flag of the link at this moment, may write that it is down. Later that is an
// operator's decision; but a keeper that starts cannot know the cause, as its predecessor may have ended at that
// moment.
func TestALinkThatIsSetDownWhileItBecomesAPortIsSetUp(t *testing.T) {
	n := newNode(t)
	n.outside.Vsctl("add-port", "sw", "to-up0")
	config := n.config("", "up0")
	config.Step = func(what string) {
		if what == "set rows" {
			n.Exec("ip", "link", "set", "up0", "down")
		}
	}
	b, stop := n.run(config)
	n.reaches("by a link that was set down")
	n.says(b, "")
	n.Exec("ip", "link", "set", "up0", "down")
	n.says(b, "uplink up0 is set down")
	stop()
	b, _ = n.keep("", "up0")
	n.reaches("after a start")
	n.says(b, "")
	n.Exec("ip", "link", "set", "up0", "down")
	n.says(b, "uplink up0 is set down")
}

func TestRowsThatSomebodyChangedAreSetRight(t *testing.T) {
	n := newNode(t)
	n.outside.Vsctl("add-port", "sw", "to-up0", "--", "add-port", "sw", "to-up1")
	b, _ := n.keep(uplink.ActiveBackup, "up0", "up1")
	n.reaches("at first")
	for _, damage := range [][]string{
		{"del-port", uplink.PeerPort},
		{"set", "interface", uplink.PeerPort, "options:peer=nobody"},
		{"set", "port", uplink.PeerPort, "tag=9"},
		{"del-port", "uplinkPort"},
		{"set", "port", "uplinkPort", "bond_mode=balance-slb", "lacp=active"},
		{"set-fail-mode", uplink.DefaultBridge, "secure"},
		{"clear", "port", uplink.DefaultBridge, "tag"},
		{"del-br", uplink.DefaultBridge},
	} {
		n.Vsctl(damage...)
		n.eventually(strings.Join(damage, " ")+" is undone", func() bool {
			return strings.Contains(n.Vsctl("show"), uplink.DefaultBridge) &&
				n.Vsctl("get-fail-mode", uplink.DefaultBridge) == "standalone\n" &&
				strings.Contains(n.Vsctl("--columns=tag,vlan_mode", "list", "port", uplink.DefaultBridge), "access") &&
				strings.Contains(n.Vsctl("--columns=bond_mode,lacp", "find", "port", "name=uplinkPort"), "active-backup")
		})
		n.reaches("after " + strings.Join(damage, " "))
	}
	n.says(b, "")
}
