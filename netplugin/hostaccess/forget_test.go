package hostaccess

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// A firewall that is restarted empties nftables for a moment. What endpoints, and clients of node ports, begin then is
// tracked without a translation, for as long as they go on sending.
func TestWhatBeganWithoutTheRulesIsForgotten(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() {
		run(t, "nft flush ruleset; ip addr del 192.0.2.1/32 dev lo; ip link del vpn; conntrack -F 2>/dev/null")
	})
	run(t, `ip link set lo up; ip addr add 192.0.2.1/32 dev lo
ip link add vpn type veth peer name far; ip link set far up; ip addr add 172.19.77.1/24 dev vpn; ip link set vpn up
nft 'add table inet t; add chain inet t c { type filter hook output priority 0; }; add rule inet t c ct state new counter'`)
	m := New(Config{})
	served := netip.MustParseAddr("203.0.113.80")
	in := entrances{agent.Entrances{Addresses: []netip.Addr{served}, NodePorts: []agent.NodePort{{Protocol: openflow.ProtoUDP, Port: 30004}}}, wayOut, Everywhere()}
	round := func() string {
		t.Helper()
		if err := m.rules.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).with(in)); err != nil {
			t.Fatal(err)
		}
		if err := m.forget(hostPorts{nil, wayOut}, in, []netip.Addr{netip.MustParseAddr("10.9.0.7")}); err != nil {
			t.Fatal(err)
		}
		return run(t, "conntrack -L 2>/dev/null; conntrack -L -w 7 2>/dev/null; conntrack -L -f ipv6 2>/dev/null")
	}
	round()
	begin := func() {
		t.Helper()
		run(t, `now() { conntrack -I -p ${6:-udp} -s "$1" --sport 5353 -t 60 -u UNSET -r "$3" --reply-port-src "$4" --reply-port-dst 5353 -q "${5:-$1}" -d "$2" --dport "$4" $7 $8; }
now 172.19.0.6 198.51.100.9 198.51.100.9 1001
now 172.19.0.6 198.51.100.9 198.51.100.9 1002 192.0.2.1
now 172.19.0.6 198.51.100.9 198.51.100.9 1003 "" udp -w 7
now 172.19.0.6 192.0.2.1 192.0.2.1 1004
now 172.19.0.6 203.0.113.80 203.0.113.80 1005
now 172.19.0.6 10.9.0.7 10.9.0.7 1006
now 172.19.0.6 192.0.2.1 172.19.255.253 30004
now 192.0.2.9 192.0.2.1 192.0.2.1 30004
now 172.18.0.6 198.51.100.9 198.51.100.9 1008
now 172.19.0.6 172.19.255.254 172.19.255.254 1011
now 172.19.255.254 203.0.113.80 203.0.113.80 1012
now 198.51.100.9 172.19.0.6 172.19.0.6 1013
now 192.0.2.1 172.19.0.6 172.19.0.6 1014
now 198.51.100.9 172.19.77.6 172.19.77.6 1015
now 172.19.77.6 198.51.100.9 198.51.100.9 1016
now fd63:6f6e:7469:7601::6 2001:db8::9 2001:db8::9 1009
now 172.19.0.6 198.51.100.9 198.51.100.9 1010 "" tcp --state SYN_SENT`)
	}
	begin()
	entries := map[string]bool{
		"src=172.19.0.6 dst=198.51.100.9 sport=5353 dport=1001":     false,
		"src=172.19.0.6 dst=198.51.100.9 sport=5353 dport=1010":     false, // TCP
		"src=fd63:6f6e:7469:7601::6 dst=2001:db8::9":                false,
		"src=192.0.2.9 dst=192.0.2.1 sport=5353 dport=30004":        false, // at a node port
		"src=172.19.0.6 dst=198.51.100.9 sport=5353 dport=1002":     true,  // masqueraded
		"src=172.19.0.6 dst=198.51.100.9 sport=5353 dport=1003":     true,  // of a switch
		"src=172.19.0.6 dst=192.0.2.1 sport=5353 dport=1004":        true,  // at the host itself
		"src=172.19.0.6 dst=203.0.113.80 sport=5353 dport=1005":     true,  // at a service
		"src=172.19.0.6 dst=10.9.0.7 sport=5353 dport=1006":         true,  // at a pod of another tenant
		"src=172.19.0.6 dst=192.0.2.1 sport=5353 dport=30004":       true,  // at a node port
		"src=172.19.0.6 dst=172.19.255.254 sport=5353 dport=1011":   false, // begun at the host, which only asks
		"src=172.19.255.254 dst=203.0.113.80 sport=5353 dport=1012": true,  // of the host
		"src=198.51.100.9 dst=172.19.0.6 sport=5353 dport=1013":     false, // begun from outside
		"src=192.0.2.1 dst=172.19.0.6 sport=5353 dport=1014":        true,  // by the host
		"src=198.51.100.9 dst=172.19.77.6 sport=5353 dport=1015":    true,  // at what the host reaches by another interface
		"src=172.19.77.6 dst=198.51.100.9 sport=5353 dport=1016":    true,  // by that
		"src=172.18.0.6 dst=198.51.100.9 sport=5353 dport=1008":     true,  // of others
	}
	before := round()
	for what := range entries {
		if !strings.Contains(before, what) {
			t.Errorf("%s is gone, and nothing has happened to the rules; left:\n%s", what, before)
		}
	}
	run(t, "nft flush ruleset")
	left := round()
	for what, want := range entries {
		if strings.Contains(left, what) != want {
			t.Errorf("%s: want %v, left:\n%s", what, want, left)
		}
	}
}
