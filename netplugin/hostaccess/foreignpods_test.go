package hostaccess

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/testkit"
)

func podAt(tenant, name string, addresses ...string) Pod {
	p := Pod{Tenant: tenant, Endpoint: "default-net." + tenant + "-" + name}
	for _, a := range addresses {
		p.Addresses = append(p.Addresses, netip.MustParseAddr(a))
	}
	return p
}

// probed are the networks in which pods are reached.
var probed = []ProbedNetwork{
	{"default", netip.MustParsePrefix("10.0.0.0/8")}, {"blue", netip.MustParsePrefix("10.0.0.0/8")}, {"red", netip.MustParsePrefix("10.0.0.0/8")},
	{"blue", netip.MustParsePrefix("fd77::/64")}, {"red", netip.MustParsePrefix("fd77::/64")}, {"red", netip.MustParsePrefix("2001:db8::/32")},
}

// accessIn returns the access of a host with an interface in a tenant.
func accessIn(tenant string) agent.HostAccess {
	return agent.HostAccess{Outside: &wayOut, Networks: []agent.HostNetwork{{Network: mastercfg.CfgNetworkState{Tenant: tenant, NetworkName: mastercfg.AccessNetwork}}},
		Entrances: agent.Entrances{Addresses: []netip.Addr{netip.MustParseAddr("10.77.0.80")}}}
}

// The host reaches pods of its own tenant anyway; of other tenants only those whose addresses nothing else has.
func TestAddressesThatAreSomethingElsesLeadToNoPodOfAnotherTenant(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip link add lan0 type veth peer name lan1 && ip link set lan1 up && ip link set lan0 up && ip addr add 10.78.0.1/24 dev lan0 && ip addr add 2001:db8:78::1/64 dev lan0 nodad && ip route add unreachable 10.0.0.0/8 metric 4000")
	t.Cleanup(func() { run(t, "ip link del lan0; ip route del unreachable 10.0.0.0/8 metric 4000") })
	all := []Pod{
		podAt("default", "home", "10.1.0.3"),
		podAt("blue", "web", "10.77.0.4", "fd77::4"), podAt("blue", "vip", "10.77.0.80"),
		podAt("blue", "twin", "10.77.0.6"), podAt("red", "twin", "10.77.0.6", "fd77::7"), podAt("green", "twin", "10.77.0.6"), podAt("green", "thief", "10.77.0.4"),
		podAt("red", "lan", "10.78.0.9", "2001:db8:78::9"), podAt("red", "host", "10.78.0.1"),
		podAt("red", "node", "10.77.0.99"), podAt("red", "master", "10.77.0.98"), podAt("red", "elsewhere", "192.168.0.5"), podAt("red", "portless", "10.77.0.50"),
	}
	m := New(Config{Log: testkit.Quiet(), Containers: Containers{Pods: func() []Pod { return all }, Numbers: func() (map[string]uint32, error) {
		numbers := map[string]uint32{}
		for i, p := range all {
			if !strings.HasSuffix(p.Endpoint, "portless") {
				numbers[p.Endpoint] = uint32(i + 1)
			}
		}
		return numbers, nil
	}, Probed: probed}})
	learn := func(tenant string) (foreignPods, []agent.UnreachedPod, error) {
		access := accessIn(tenant)
		access.Nodes = []netip.Addr{netip.MustParseAddr("10.77.0.99")}
		return m.findForeign(access, Closed{Nodes: []netip.Addr{netip.MustParseAddr("10.77.0.98")}})
	}
	found, unreached, err := learn("default")
	if got, want := fmt.Sprint(found.addresses(), err), "[10.77.0.4 10.77.0.80 fd77::4 fd77::7] <nil>"; got != want {
		t.Errorf("reached: %s, want %s", got, want)
	}
	var whys []string
	for _, u := range unreached {
		whys = append(whys, fmt.Sprintf("%s at %s: %s %t", u.Endpoint, u.At, u.Why, u.Unnamed))
	}
	slices.Sort(whys)
	for i, want := range []string{"blue-twin at 10.77.0.6: so has", "green-thief at 10.77.0.4: it is of tenant green", "green-twin at 10.77.0.6: it is of tenant green", "red-elsewhere at 192.168.0.5: it is of tenant red, and netplugin's --probed-networks does not name its network true",
		"red-host at 10.78.0.1: the host has a route", "red-lan at 10.78.0.9: the host has a route to 10.78.0.0/24 by lan0", "red-master at 10.77.0.98: a machine", "red-node at 10.77.0.99: a machine of the cluster has it, too false", "red-twin at 10.77.0.6: so has default-net.blue-twin"} {
		if i >= len(whys) || !strings.Contains(whys[i], want) {
			t.Errorf("%q: want %q", whys, want)
		}
	}
	found, _, err = learn("blue")
	if got, want := fmt.Sprint(found.addresses(), err), "[10.1.0.3 10.77.0.6 fd77::7] <nil>"; got != want {
		t.Errorf("a host in blue reaches %s, want %s", got, want)
	}
}

// Kubelet probes at the pod's address of the IP family that comes first for its node, so that one is reported as
// unreached.
func TestPodsAreTakenForProbedWhereKubeletAsks(t *testing.T) {
	addresses := func(texts ...string) (all []netip.Addr) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all
	}
	both, four := podAt("green", "web", "10.77.0.4", "fd77::4"), podAt("green", "web", "10.77.0.4")
	for _, c := range []struct {
		pod  Pod
		node []netip.Addr
		want string
	}{
		{both, nil, "10.77.0.4"}, {both, addresses("192.0.2.1"), "10.77.0.4"}, {both, addresses("192.0.2.1", "2001:db8::1"), "10.77.0.4"},
		{both, addresses("2001:db8::1"), "fd77::4"}, {both, addresses("2001:db8::1", "192.0.2.1"), "fd77::4"}, {four, addresses("2001:db8::1"), "10.77.0.4"},
	} {
		m := New(Config{Containers: Containers{Pods: func() []Pod { return []Pod{c.pod, {Tenant: "green"}} }}})
		access := accessIn("default")
		access.Primary = c.node
		_, unreached, err := m.findForeign(access, Closed{})
		if err != nil || len(unreached) != 1 || unreached[0].At.String() != c.want {
			t.Errorf("%v on a node at %v: not reached %+v, %v, want %s", c.pod.Addresses, c.node, unreached, err, c.want)
		}
	}
}

// The host reaches foreign pods only if it is configured to probe them. If the switch is away, their number is
// learned later.
func TestNoPodsAreReachedThatNobodyAskedFor(t *testing.T) {
	away := errors.New("the switch is away")
	m := New(Config{Containers: Containers{
		Pods: func() []Pod { return []Pod{podAt("blue", "web", "10.77.0.2")} }, Numbers: func() (map[string]uint32, error) { return nil, away },
	}})
	if found, unreached, err := m.findForeign(accessIn("default"), Closed{}); len(found.at) > 0 || len(unreached) != 1 || !unreached[0].Unnamed || err != nil {
		t.Errorf("%v, %v, %v", found, unreached, err)
	}
	m.Probed = probed
	for tenant, want := range map[string]error{"blue": nil, "default": away} {
		if _, _, err := m.findForeign(accessIn(tenant), Closed{}); err != want {
			t.Errorf("a host in %s: %v", tenant, err)
		}
	}
}

// A process that has just started does not know the switch's ports. The routes to pods of its predecessor are not
// removed then.
func TestPodsThatCannotBeLearnedAreThoseThatWere(t *testing.T) {
	away := errors.New("the switch is away")
	var err error
	m := New(Config{Containers: Containers{Probed: probed, Pods: func() []Pod { return []Pod{podAt("blue", "web", "10.77.0.2")} },
		Numbers: func() (map[string]uint32, error) { return map[string]uint32{"default-net.blue-web": 5}, err }}})
	for _, step := range []struct {
		numbers error
		known   bool
		pods    int
	}{{away, false, 0}, {nil, true, 1}, {away, true, 1}} {
		err = step.numbers
		if pods, got := m.presentForeign(accessIn("default"), Closed{}); got != step.numbers || (pods.at != nil) != step.known || len(pods.at) != step.pods {
			t.Errorf("%+v: %v, %v", step, pods, got)
		}
	}
}

// Only the host reaches a pod of another tenant by its address, as the host at the egress interface.
func TestTheHostReachesPodsOfOtherTenants(t *testing.T) {
	testkit.NeedsMachine(t)
	m := New(Config{Log: testkit.Quiet(), Containers: Containers{Pods: func() []Pod { return []Pod{podAt("blue", "web", "10.77.0.2", "fd77::2")} }, Probed: probed,
		Numbers: func() (map[string]uint32, error) { return map[string]uint32{"default-net.blue-web": 5}, nil }}})
	pods, unreached, err := m.findForeign(accessIn("default"), Closed{})
	if err != nil || unreached != nil {
		t.Fatal(unreached, err)
	}
	t.Cleanup(func() {
		run(t, "nft flush ruleset; for l in contivh0 esw toworld; do ip link del $l 2>/dev/null || true; done; ip netns del switch || true; ip netns del world || true")
	})
	run(t, `set -e
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip link set lo up
ip netns add world; ip netns add switch
ip link add toworld type veth peer name eth0 netns world
ip addr add 203.0.113.1/24 dev toworld; ip link set toworld up
ip -n world addr add 203.0.113.2/24 dev eth0; ip -n world link set eth0 up; ip -n world route add default via 203.0.113.1
ip link add esw type veth peer name pod; ip link set esw up`)
	link := outsideInterface(wayOut)
	link.routes = routesTo(append(pods.addresses(), netip.MustParseAddr("10.77.0.2"))...)
	if _, err := link.ensure(drivers.Port{HostLink: "esw", PodLink: "pod"}, new(own)); err != nil {
		t.Fatal(err)
	}
	run(t, `set -e
ip link set esw netns switch; ip -n switch link set lo up; ip -n switch link set esw arp off up
ip -n switch addr add 172.19.0.5/32 dev esw; ip -n switch addr add fd63:6f6e:7469:7601::5/128 dev esw nodad
ip netns exec switch ip link set esw address `+link.mac.String()+`
ip -n switch route add default dev esw; ip -n switch -6 route add default dev esw`)
	rules := new(rules)
	stolen := entrances{Entrances: agent.Entrances{Addresses: []netip.Addr{netip.MustParseAddr("10.77.0.2")}}, outside: wayOut} // of somebody's service
	table := tableFor(wayOut, closed, "inb01", 2000).with(stolen).withForeignPods(pods)
	if err := rules.apply(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	if rules.listed == "" || rules.list(t.Context(), table) != rules.listed {
		t.Errorf("the table would be written again:\n%s", rules.listed)
	}
	answerIn(t, "switch", "tcp :: 80", "udp ::ffff:172.19.0.5 30053")
	leads(t, []asked{
		{"", "tcp", "10.77.0.2", "80", "172.19.255.254"},
		{"", "udp", "10.77.0.2", "30053", "172.19.255.254"},
		{"", "tcp", "fd77::2", "80", "fd63:6f6e:7469:7601::fffe"},
	})
	if got := run(t, fmt.Sprintf("ip netns exec world timeout 3 "+testkit.Python+" -ISc '%s' tcp 10.77.0.2 80 2>&1 || true", asking)); strings.Contains(got, "203.0.113") {
		t.Errorf("the world reaches it: %s", got)
	}
}
