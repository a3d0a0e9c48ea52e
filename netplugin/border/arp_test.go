package border

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// wired is a driver that has made the port of the interface.
type wired struct{ portDriver }

func (wired) AddPort(context.Context, pipeline.Encap, string, int) (drivers.Port, error) {
	return drivers.Port{HostLink: "vvport7", PodLink: "vport7"}, nil
}

func (wired) Status() drivers.Status { return drivers.Status{} }

// The host has an address on the uplinks' bridge and one among the routers, which is the same link outside: an ARP
// request there for either must get that address's MAC.
func TestTheHostAnswersForAnAddressWhereItHasIt(t *testing.T) {
	testkit.NeedsMachine(t)
	alone(t, func() {
		const host, router = "203.0.113.7", "203.0.113.11"
		outside := fmt.Sprint("arp-", os.Getpid())
		sh(t, `ip netns add `+outside+`
ip link add `+uplink.DefaultBridge+` type veth peer name by-host netns `+outside+`
ip link add vvport7 type veth peer name vport7
ip link add to-router type veth peer name by-router netns `+outside+`
ip link add sw type bridge; sysctl -qw net.ipv4.conf.sw.arp_ignore=8
ip link set vvport7 master sw; ip link set to-router master sw
for link in `+uplink.DefaultBridge+` vvport7 to-router sw; do ip link set $link up; done
ip address add `+host+`/24 dev `+uplink.DefaultBridge)
		defer sh(t, "ip netns delete "+outside)
		sh(t, `ip netns exec `+outside+` sh -ec 'ip link set by-host up; ip link set by-router up
ip address add 203.0.113.1/24 dev by-host; ip address add 203.0.113.2/24 dev by-router'`)
		border := New(Config{Driver: &wired{}, StateFile: filepath.Join(t.TempDir(), "routes.json")})
		wanted := &agent.BGP{AS: 1, Link: netip.MustParsePrefix(router + "/24")}
		for range 2 { // the second time there is nothing to do
			if err := border.applyRouter(t.Context(), wanted); err != nil {
				t.Fatal(err)
			}
		}
		// The result of ping does not matter: the answer may leave by the other interface.
		answered := func(address, link string) bool {
			_ = exec.Command("ip", "netns", "exec", outside, "ping", "-c1", "-W1", "-n", "-q", "-I", link, address).Run()
			known, err := exec.Command("ip", "-n", outside, "neighbour", "show", "dev", link, "to", address).Output()
			return err == nil && strings.Contains(string(known), "lladdr")
		}
		testkit.Eventually(t, time.Minute, "each answers for its own address", func() bool {
			return answered(host, "by-host") && answered(router, "by-router")
		})
		if answered(router, "by-host") || answered(host, "by-router") {
			t.Error("an interface answers for the other one's address")
		}
		// As when ovs-vswitchd restarts: a new link, with the settings of new links.
		sh(t, "ip link delete "+uplink.DefaultBridge+`
ip link add `+uplink.DefaultBridge+` type veth peer name by-host netns `+outside+`
ip link set `+uplink.DefaultBridge+` up
ip address add `+host+`/24 dev `+uplink.DefaultBridge+`
ip -n `+outside+` address add 203.0.113.1/24 dev by-host
ip -n `+outside+` link set by-host up`)
		testkit.Eventually(t, time.Minute, "the new link answers for its own address", func() bool { return answered(host, "by-host") })
		if answered(router, "by-host") {
			t.Error("the new link answers for the address of the interface")
		}
		for range 2 { // the second time there is nothing to do
			if err := border.arp.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if out, err := exec.Command("nft", "list", "tables", "arp").Output(); err != nil || len(out) > 0 {
			t.Errorf("left: %s %v", out, err)
		}
	})
}
