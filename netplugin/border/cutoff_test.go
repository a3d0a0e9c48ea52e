package border

import (
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// The configuration of a node's router cannot cut it off from the rest of the cluster: the host keeps its other
// links for all that it reaches by them, and the node reports why it is no router.
func TestARouterTakesNothingFromTheHostThatItReachesByOtherLinks(t *testing.T) {
	testkit.NeedsMachine(t)
	machines := func() ([]netip.Addr, error) {
		return []netip.Addr{addr("192.0.2.3"), addr("198.51.100.3"), addr("2001:db8:1::3")}, nil
	}
	nobodyKnows := func() ([]netip.Addr, error) { return nil, fault.New(fault.Unavailable, "nobody knows yet") }
	for _, c := range []struct {
		name, link, link6 string
		host              string // other links of the host
		machines          func() ([]netip.Addr, error)
		why               string // "": the node is that router
	}{
		{"another network", "203.0.113.11/24", "2001:db8::11/64", "", machines, ""},
		{"a part of what is on another link", "192.0.2.130/25", "", "", machines, "address 192.0.2.130/25: the host is in it by interface other, with address 192.0.2.2/24"},
		{"all of that", "192.0.2.130/24", "", "", machines, "by interface other"},
		{"of IPv6", "203.0.113.11/24", "2001:db8:1::11/80", "", machines, "address 2001:db8:1::11/80: the host is in it by interface other"},
		{"a machine that is reached by a router", "198.51.100.11/24", "", "", machines, "address 198.51.100.11/24: 198.51.100.3 in it is a machine of the cluster"},
		{"one by a route that is more specific", "198.51.100.11/24", "", "ip route add 198.51.100.3/32 via 192.0.2.254", machines, ""},
		{"the uplinks' bridge has an address there", "203.0.113.11/24", "", "ip link add contivUplink type bridge; ip addr add 203.0.113.7/16 dev contivUplink; ip link set contivUplink up", machines, ""},
		{"an uplink still has one", "203.0.113.11/24", "", "ip link add eth1 type bridge; ip addr add 203.0.113.7/24 dev eth1; ip link set eth1 up", machines, ""},
		{"a machine on the same wire", "198.51.100.11/24", "", "ip link add contivUplink type bridge; ip addr add 198.51.100.7/16 dev contivUplink; ip link set contivUplink up", machines, ""},
		{"it is not known where machines are", "203.0.113.11/24", "", "", nobodyKnows, "nobody knows yet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, func() {
				sh(t, `ip link set lo up; ip link add vvport7 type veth peer name vport7; ip link set vvport7 up
ip link add other type bridge; ip addr add 192.0.2.2/24 dev other; ip addr add 2001:db8:1::2/64 dev other nodad; ip link set other up
ip route add default via 192.0.2.254; `+c.host)
				ways := waysTo(t, "192.0.2.200", "192.0.2.3", "198.51.100.3")
				border := New(Config{Driver: &wired{}, StateFile: filepath.Join(t.TempDir(), "routes.json"), Uplinks: []string{"eth1"}, Machines: c.machines})
				wanted := &agent.BGP{AS: 1, Link: prefix(c.link)}
				if c.link6 != "" {
					wanted.Link6 = prefix(c.link6)
				}
				border.Update(drivers.Change{Replace: true})
				border.Configure(wanted)
				border.reconcile(t.Context())
				defer func() {
					if err := border.arp.Remove(t.Context()); err != nil {
						t.Error(err)
					}
				}()
				problem, isRouter := "", interfaceHas(wanted.Link)
				if view := border.Inspect(); view != nil {
					problem = view.Problem
				}
				if isRouter != (c.why == "") {
					t.Errorf("is the router: %v", isRouter)
				}
				if c.why == "" && problem != "" || c.why != "" && !strings.Contains(problem, c.why) {
					t.Errorf("tells %q, want %q", problem, c.why)
				}
				if now := waysTo(t, "192.0.2.200", "192.0.2.3", "198.51.100.3"); c.why != "" && now != ways {
					t.Errorf("reached by now:\n%s\nbefore:\n%s", now, ways)
				}
				if c.why != "" {
					return
				}
				sh(t, "ip addr add 203.0.113.8/25 dev other") // what is there stays
				border.cfg.Machines = nobodyKnows
				if err := border.applyRouter(t.Context(), wanted); err != nil || !interfaceHas(wanted.Link) {
					t.Errorf("looked at again: %v", err)
				}
			})
		})
	}
}

// waysTo returns the host's routes to addresses.
func waysTo(t *testing.T, addresses ...string) string {
	t.Helper()
	out, err := exec.Command("sh", "-ec", "for a in "+strings.Join(addresses, " ")+"; do ip -o route get $a; done").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	return string(out)
}
