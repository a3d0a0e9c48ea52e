package hostaccess

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The connections that the host can track are shared: an endpoint has a limit, so that one with very many leaves
// room for the others. Counting them costs the kernel more the more there are (30 µs with 16,384, 3 µs without),
// so a limit of new connections per second, which costs nothing, is checked first.
const (
	sharePart      = 16 // part of the host's table for one endpoint
	shareAtLeast   = 1024
	shareOtherwise = 16384 // used if the kernel does not report the table's size

	newPerSecond = 2000
	newAtOnce    = 4000
)

// Masqueraded connections to one port of one machine share the host's masqueradePorts: if two endpoints had them all,
// no endpoint of another tenant would reach that machine, such as the name server of the site. A quarter lets a
// forwarder of names, whose questions count for 30 s, ask some 270 a second from a port each.
const shareOfServer = 32768 / 4

// share returns how many connections through the egress interface an endpoint may have at a time.
func share() int {
	all, err := strconv.Atoi(read("netfilter/nf_conntrack_max"))
	if err != nil || all == 0 { // no connection was tracked yet, or there is no limit
		return shareOtherwise
	}
	return max(all/sharePart, shareAtLeast)
}

// Sets of senders; those of IPv6 have a 6 at the end.
const (
	setFast = "opens-fast"
	setMany = "has-many"

	setServers = "has-many-of-a-server" // by server, too
)

// senderSets returns the sets of endpoints that open connections, by source address.
func senderSets() (sets []set) {
	for _, family := range []struct{ suffix, kind string }{{"", "ipv4_addr"}, {"6", "ipv6_addr"}} {
		sets = append(sets,
			set{name: setFast + family.suffix, kind: family.kind, dynamic: true, forgets: time.Minute},
			set{name: setMany + family.suffix, kind: family.kind, dynamic: true},
			set{name: setServers + family.suffix, kind: family.kind + " . " + family.kind + " . inet_proto . inet_service", dynamic: true})
	}
	return sets
}

// shareRules drop new connections through the egress interface beyond an endpoint's share. Connections of outside
// clients to a provider that is not an endpoint pass it, too, all with one source address, which has no limit.
func shareRules(o []netip.Prefix, share int) (rules []rule) {
	for _, p := range o {
		ip := version(p)
		rules = append(rules, shareOf(knftables.Concat("iifname", quoted(outsideLink), ip, "saddr", p, ip, "saddr !=", pipeline.BeyondNode(p)), ip, share)...)
	}
	return rules
}

// serverShareRules drop new masqueraded connections of an endpoint to one port of one machine beyond its share of the
// host's ports.
func serverShareRules(o []netip.Prefix) (rules []rule) {
	for _, p := range o {
		ip := version(p)
		rules = append(rules, rule{
			text: knftables.Concat("iifname", quoted(outsideLink), "oifname !=", quoted(outsideLink), ip, "saddr", p, ip, "saddr !=", pipeline.BeyondNode(p),
				"meta l4proto { tcp, udp, sctp } ct state new add @"+setServers+suffix(p), "{", ip, "saddr .", ip, "daddr . meta l4proto . th dport",
				fmt.Sprintf("ct count over %d", shareOfServer), "} counter drop"),
			comment: "an endpoint has its share of a server",
		})
	}
	return rules
}

// infraShareRules are shareRules for infra networks, where endpoints and other hosts have their own addresses. In a
// bridged one they may have this host forward packets.
func infraShareRules(share int) (rules []rule) {
	for _, ip := range []string{"ip", "ip6"} {
		rules = append(rules, shareOf(knftables.Concat("iifgroup", infraGroup), ip, share)...)
	}
	return rules
}

// shareOf returns the rules for senders of an IP family, ip or ip6.
func shareOf(which, ip string, share int) []rule {
	suffix := strings.TrimPrefix(ip, "ip")
	each := func(set, limit string) string {
		return knftables.Concat(which, "ct state new", "add @"+set+suffix, "{", ip, "saddr", limit, "} counter drop")
	}
	return []rule{
		{each(setFast, fmt.Sprintf("limit rate over %d/second burst %d packets", newPerSecond, newAtOnce)), "an endpoint opens connections too fast"},
		{each(setMany, fmt.Sprintf("ct count over %d", share)), "an endpoint has its share of connections"},
	}
}
