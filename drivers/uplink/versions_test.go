package uplink_test

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers/uplink"
)

// A new link has the machine's default for IPv6, and the local port the uplink's setting.
func TestTheLocalPortHasIPv6AsTheUplinkHad(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv6.conf.up0.accept_ra=0")
	before := n.picture()
	b, _ := n.keep("", "up0")
	n.isOnBridge("although IPv6 is off for new links", before)
	n.says(b, "")
	if got := n.Exec("cat", "/proc/sys/net/ipv6/conf/"+uplink.DefaultBridge+"/accept_ra"); got != "0\n" {
		t.Errorf("the local port hears routers, the uplink did not: accept_ra is %q", got)
	}
}

// If IPv6 is disabled at the uplink, it is disabled at the local port; an address added there all the same does
// not keep the host from its routes.
func TestWhatCannotBeGivenBackKeepsNothingElse(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("sysctl", "-qw", "net.ipv6.conf.up0.disable_ipv6=1")
	before := n.picture()
	_, stop := n.keep("", "up0")
	n.eventually("the host is on the bridge", func() bool {
		return strings.Contains(n.Exec("ip", "route", "show", "default"), "dev "+uplink.DefaultBridge)
	})
	off := "/proc/sys/net/ipv6/conf/" + uplink.DefaultBridge + "/disable_ipv6"
	if got := n.Exec("cat", off); got != "1\n" {
		t.Errorf("IPv6 is on at the local port: %q", got)
	}
	n.Exec("sh", "-ec", "echo 0 > "+off+"; ip address add 2001:db8:7::77/64 dev "+uplink.DefaultBridge+" nodad")
	n.recorded("2001:db8:7::77", true)
	stop()
	n.undo()
	if after := n.picture(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

// Each advertised IPv6 router is a route with a lifetime; all of them are moved.
func TestRoutesByTwoRoutersAreMoved(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("ip", "-6", "route", "flush", "default")
	vias := []string{"2001:db8:7::1", "2001:db8:7::2"}
	for _, via := range vias {
		n.Exec("ip", "-6", "route", "append", "default", "via", via, "dev", "up0", "proto", "ra", "metric", "1024", "expires", "900")
	}
	before := n.Exec("ip", "-6", "route", "show", "default")
	b, stop := n.keep("", "up0")
	defer func() {
		if t.Failed() {
			t.Logf("before\n%s\nthen\n%s", before, n.Exec("ip", "-6", "route"))
		}
	}()
	areThere := func(link string) func() bool {
		return func() bool {
			routes := n.Exec("ip", "-6", "route", "show", "default")
			for _, via := range vias {
				if !strings.Contains(routes, "via "+via+" dev "+link) {
					return false
				}
			}
			return strings.Contains(routes, "expires")
		}
	}
	n.eventually("both are out of the local port", areThere(uplink.DefaultBridge))
	n.says(b, "")
	stop()
	n.undo()
	if !areThere("up0")() {
		t.Error("they are not back")
	}
}

// A route by several links that are all uplinks leads out of the local port by all of its gateways.
func TestARouteOfSeveralUplinksIsMoved(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.twoLegs()
	n.Exec("sh", "-ec", "ip route del default; ip route add default nexthop via 198.51.100.1 dev up0 nexthop via 192.0.2.1 dev up1")
	before := n.Exec("ip", "route", "show", "default")
	b, stop := n.keep(uplink.ActiveBackup, "up0", "up1")
	defer func() {
		if t.Failed() {
			t.Logf("before\n%s\nthen\n%s", before, n.Exec("ip", "route"))
		}
	}()
	n.eventually("it leads out of the local port", func() bool {
		routes := n.Exec("ip", "route", "show", "default")
		return strings.Contains(routes, "via 198.51.100.1 dev "+uplink.DefaultBridge) && strings.Contains(routes, "via 192.0.2.1 dev "+uplink.DefaultBridge)
	})
	n.hostReaches("198.51.100.1")
	n.says(b, "")
	stop()
	n.undo()
	if after := n.Exec("ip", "route", "show", "default"); after != before {
		t.Errorf("it is not back: %s", after)
	}
}

// A route by a nexthop object cannot be moved from its link: such a link stays as it is, and is reported.
func TestALinkWithARouteByANexthopObjectStaysAsItIs(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := aHost(t)
	n.Exec("sh", "-ec", "ip route del default; ip nexthop add id 10 via 198.51.100.1 dev up0; ip route add default nhid 10")
	before := n.picture()
	b, _ := n.keep("", "up0")
	n.says(b, "nexthop object 10")
	if after := n.picture(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}
