package ovsd_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// underlay is a bridge with the tunnel address of a node whose switch may not be able to read routes.
type underlay struct {
	*node
	t *testing.T
}

func newUnderlay(t *testing.T, vswitchdOptions ...string) underlay {
	n := newNode(t)
	n.config.AuditInterval = 100 * time.Millisecond
	n.Exec("ip", "address", "flush", "dev", "under0")
	n.AddBridge("br-phy")
	u := underlay{n, t}
	u.restart(vswitchdOptions...)
	return u
}

// restart starts another ovs-vswitchd, which recreates the local port.
func (u underlay) restart(vswitchdOptions ...string) {
	u.t.Helper()
	u.KillVswitchd()
	u.VswitchdOptions = vswitchdOptions
	u.StartVswitchd()
	u.address("192.0.2.1/24")
}

func (u underlay) address(addresses ...string) {
	u.t.Helper()
	eventually(u.t, "the bridge has its local port", func() bool {
		_, err := u.Try("ip", "link", "set", "br-phy", "up")
		return err == nil
	})
	u.Exec("ip", "address", "flush", "dev", "br-phy", "scope", "global")
	for _, a := range addresses {
		u.Exec("ip", "address", "add", a, "dev", "br-phy")
	}
}

// has waits until the switch has these added routes, and has the address as tunnel endpoint.
func (u underlay) has(why string, want ...string) {
	u.t.Helper()
	u.endsAt(why, "ipv4(dst=192.0.2.1,", want...)
}

func (u underlay) endsAt(why, address string, want ...string) {
	u.t.Helper()
	eventually(u.t, why, func() bool {
		return slices.Equal(u.given(), want) && strings.Contains(u.Appctl("tnl/ports/show", "-v"), address)
	})
}

// given returns the routes added to the switch, by any program.
func (u underlay) given() (routes []string) {
	u.t.Helper()
	for line := range strings.Lines(u.Appctl("ovs/route/show")) {
		if route, is := strings.CutPrefix(strings.TrimSpace(line), "User: "); is {
			routes = append(routes, route)
		}
	}
	slices.Sort(routes)
	return routes
}

// starts waits until the tunnel has an address of its own, or none.
func (u underlay) starts(atAddress bool) {
	u.t.Helper()
	eventually(u.t, "the tunnel says its address, or not", func() bool {
		return strings.Contains(u.column("Interface", "vxif0", "options"), "local_ip") == atAddress
	})
}

// version returns a value that differs after each change of the tunnel's row.
func (u underlay) version() string {
	u.t.Helper()
	return u.Exec("ovsdb-client", "query", "unix:"+u.Socket, `["Open_vSwitch",{"op":"select","table":"Interface","where":[["name","==","vxif0"]],"columns":["_version"]}]`)
}

const (
	noSystemRoutes = "--disable-system-route"
	ownNetwork     = "192.0.2.0/24 dev br-phy SRC 192.0.2.1"
)

func TestASwitchThatReadsNoRoutesIsGivenThoseOfTunnels(t *testing.T) {
	u := newUnderlay(t, noSystemRoutes)
	r := u.start()
	r.give(drivers.Change{Replace: true})
	u.has("the network of the tunnel address", ownNetwork)
	u.starts(false)

	u.Exec("ip", "route", "add", "203.0.113.0/25", "dev", "under0")
	u.Exec("ip", "route", "add", "203.0.113.128/25", "dev", "br-phy") // Open vSwitch finds no address of ours for it, and refuses it
	u.Exec("ip", "route", "add", "default", "via", "192.0.2.254")
	u.Exec("ip", "route", "add", "198.51.100.0/24", "via", "192.0.2.253")
	u.has("routes come", "0.0.0.0/0 dev br-phy GW 192.0.2.254 SRC 192.0.2.1", ownNetwork, "198.51.100.0/24 dev br-phy GW 192.0.2.253 SRC 192.0.2.1")
	u.Exec("ip", "route", "del", "default")
	u.Exec("ip", "route", "replace", "198.51.100.0/24", "via", "192.0.2.252")
	u.has("a route goes, another has another router", ownNetwork, "198.51.100.0/24 dev br-phy GW 192.0.2.252 SRC 192.0.2.1")
	if noted := u.column("Bridge", bridge, "external_ids:tunnel-routes"); noted != `"192.0.2.0/24,198.51.100.0/24,203.0.113.128/25"` {
		t.Errorf("the bridge names %s", noted)
	}
	u.Appctl("ovs/route/add", "100.64.0.0/10", "br-phy", "192.0.2.251")
	u.Exec("ip", "route", "del", "198.51.100.0/24")
	u.has("another one goes, somebody else's stays", "100.64.0.0/10 dev br-phy GW 192.0.2.251 SRC 192.0.2.1", ownNetwork)
	u.Appctl("ovs/route/del", "100.64.0.0/10")
	u.has("somebody else's goes, which takes from tunnels where they end", ownNetwork)
	u.Exec("ip", "address", "add", "10.9.0.1/24", "dev", "br-phy")
	u.has("the link has another network", "10.9.0.0/24 dev br-phy SRC 10.9.0.1", ownNetwork)
	u.Exec("ip", "address", "del", "10.9.0.1/24", "dev", "br-phy")
	u.Appctl("ovs/route/del", "192.0.2.0/24")
	u.has("somebody has deleted it", ownNetwork)

	written := u.version()
	r.stop()
	r = u.start()
	r.give(drivers.Change{Replace: true})
	u.has("another agent", ownNetwork)
	u.Appctl("ovs/route/del", "192.0.2.0/24")
	u.has("it has looked", ownNetwork)
	if now := u.version(); now != written {
		t.Errorf("another agent has changed something, if for a moment: %s", now)
	}

	u.Vsctl("del-br", "br-phy")
	u.AddBridge("br-phy")
	u.address("192.0.2.1/24")
	u.has("the link is another one", ownNetwork)

	says := func(text string) {
		t.Helper()
		eventually(t, "the status says "+text, func() bool { return strings.Contains(r.Status().LastError, text) })
	}
	far := remote(9, 6)
	far.VTEP = netip.MustParseAddr("198.51.100.1")
	r.give(drivers.Change{Set: []pipeline.Object{network, remote(8, 6), far}})
	says("no route to node 198.51.100.1")
	r.give(drivers.Change{Remove: []pipeline.Key{far.Key()}})
	u.address("192.0.2.9/24", "192.0.2.1/24")
	u.Appctl("ovs/route/add", "192.0.2.0/24", "br-phy") // the former one may have its address from when it was added
	says("the tunnel to node 192.0.2.2 starts at 192.0.2.9 of link br-phy, not at the tunnel address 192.0.2.1")
	u.address("192.0.2.1/24")
	eventually(t, "the status says that it is well again", func() bool { return r.Status().LastError == "" })
	u.address("192.0.2.8/24")
	says("no link of this node has the tunnel address 192.0.2.1 any more")
	u.address("192.0.2.1/24")
	u.has("the address is back", ownNetwork)
	eventually(t, "the status says that it is well again", func() bool { return r.Status().LastError == "" })

	u.restart(noSystemRoutes)
	u.has("another ovs-vswitchd", ownNetwork)
	u.restart()
	u.has("one that reads the routes")
	u.starts(true)
	u.restart(noSystemRoutes)
	u.has("one that reads none", ownNetwork)
	u.starts(false)
}

func TestASwitchThatReadsRoutesIsGivenNone(t *testing.T) {
	u := newUnderlay(t)
	eventually(t, "the switch has read how the gateway is reached", func() bool { return strings.Contains(u.Appctl("ovs/route/show"), "192.0.2.0/24 dev br-phy") })
	u.Appctl("ovs/route/add", "203.0.113.0/24", "br-phy", "192.0.2.253") // of another program
	u.start().give(drivers.Change{Replace: true})
	u.Appctl("ovs/route/add", "198.51.100.0/24", "br-phy", "192.0.2.253")            // of an earlier run, which recorded that it existed before
	u.Vsctl("set", "bridge", bridge, `external_ids:tunnel-routes="198.51.100.0/24"`) // where it is looked for from now on
	eventually(t, "it has looked, and found what it had given before", func() bool { return !strings.Contains(u.column("Bridge", bridge, "external_ids"), "tunnel-routes") })
	u.starts(true)
	if given := u.given(); !slices.Equal(given, []string{"203.0.113.0/24 dev br-phy GW 192.0.2.253 SRC 192.0.2.1"}) {
		t.Errorf("the switch was given %q", given)
	}
}

func TestTunnelsOfIPv6HaveTheirRoutes(t *testing.T) {
	u := newUnderlay(t, noSystemRoutes)
	u.config.VTEP = netip.MustParseAddr("2001:db8::1")
	u.Exec("ip", "address", "add", "2001:db8::1/64", "dev", "br-phy", "nodad")
	u.Exec("ip", "route", "add", "2001:db8:1::/48", "via", "2001:db8::fe")
	r := u.start()
	r.give(drivers.Change{Replace: true})
	u.endsAt("routes of IPv6 alone", "ipv6(dst=2001:db8::1,", "2001:db8:1::/48 dev br-phy GW 2001:db8::fe SRC 2001:db8::1", "2001:db8::/64 dev br-phy SRC 2001:db8::1")
	u.starts(false)
}

// The userspace datapath loses tunnel packets without a word where the address is on a link of the kernel, or on an
// internal port, such as one of a VLAN.
func TestATunnelAddressByWhichNothingIsSentIsReported(t *testing.T) {
	for name, options := range map[string][]string{"it reads routes": nil, "it is given routes": {noSystemRoutes}} {
		t.Run(name, func(t *testing.T) {
			u := newUnderlay(t, options...)
			u.Vsctl("add-port", "br-phy", "int0", "tag=7", "--", "set", "Interface", "int0", "type=internal")
			r := u.start()
			r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(8, 6)}})
			move := func(from, to string) {
				u.Exec("ip", "link", "set", to, "up")
				u.Exec("ip", "address", "del", "192.0.2.1/24", "dev", from)
				u.Exec("ip", "address", "add", "192.0.2.1/24", "dev", to)
			}
			is := func(why, problem string) {
				t.Helper()
				eventually(t, why, func() bool {
					told := r.Status().LastError
					return told == problem || problem != "" && strings.Contains(told, problem)
				})
			}
			is("it is right", "")
			move("br-phy", "under0")
			is("it is on a link of the kernel", "tunnel address 192.0.2.1 is on link under0, which is not the local port")
			move("under0", "int0")
			is("it is on a port of a VLAN", "tunnel address 192.0.2.1 is on link int0, which is not the local port")
			move("int0", "br-phy")
			is("it is back", "")
		})
	}
}
