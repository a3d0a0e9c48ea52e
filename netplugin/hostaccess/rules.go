package hostaccess

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/knftables"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// tableName is the name of netplugin's nftables tables: of family inet, of family netdev for the kernel's copies
// of tunnelled packets (tunnels.go), and of family arp (routerarp.go). strangerTableName is an independent table
// of family inet against tunnelled packets from unknown machines (strangers.go). Other tables are not touched.
const (
	tableName         = "contiv"
	strangerTableName = "contiv-vteps"
)

// table is the wanted content of an nftables table.
type table struct {
	sets   []set
	chains []chain
	links  map[string]string // in family netdev: the link of each chain, by name
}

// set is a named set, or a map.
type set struct {
	name, kind string
	elements   []string
	values     []string      // of a map, one for each element
	leadsTo    string        // type of the values; empty: not a map
	dynamic    bool          // rules add the elements
	forgets    time.Duration // timeout of elements that are not added again; 0: none
}

// declared returns the set without its elements.
func (s set) declared() knftables.Object {
	if s.leadsTo != "" {
		return &knftables.Map{Name: s.name, Type: s.kind + " : " + s.leadsTo}
	}
	declared := &knftables.Set{Name: s.name, Type: s.kind}
	if s.dynamic {
		declared.Flags, declared.Size = []knftables.SetFlag{knftables.DynamicFlag}, knftables.PtrTo(uint64(maxSenders))
	}
	if s.forgets > 0 {
		declared.Flags, declared.Timeout = append(declared.Flags, knftables.TimeoutFlag), &s.forgets
	}
	return declared
}

// maxSenders is the maximum number of elements that rules add to a set: the number of ports.
const maxSenders = 1 << 16

// chain is a base chain of the table with its rules. Each rule has a comment, which listings show.
type chain struct {
	name     string
	kind     knftables.BaseChainType
	hook     knftables.BaseChainHook
	priority knftables.BaseChainPriority
	rules    []rule
}

// fromEndpoints restricts a chain to packets that endpoints send to the egress interface. The first rule checks
// that, so that all other packets of the host, such as those of tunnels, cost one rule only.
func (c chain) fromEndpoints() chain { return c.judging("iifname !=", quoted(outsideLink)) }

// fromAllEndpoints also includes packets that arrive on the host's interfaces in infra networks.
func (c chain) fromAllEndpoints() chain {
	return c.judging("iifname !=", quoted(outsideLink), "iifgroup !=", infraGroup)
}

func (c chain) judging(except ...any) chain {
	others := rule{knftables.Concat(append(except, "accept")...), "nothing else is judged here"}
	c.rules = append([]rule{others}, c.rules...)
	return c
}

type rule struct{ text, comment string }

// masqueradePorts are the source ports of masqueraded connections of endpoints, chosen at random: those above the
// default range of node ports. If an endpoint chose its port, such as that of tunnels, the connection tracker
// would treat packets of the other machine to that port of the host as replies to the endpoint: other tenants'
// packets in tunnels, or those of clients of node ports, of the store or of netmasters. A port of the host within
// this range is met by chance only. Other masquerading rules retain the port, so netplugin's precede them.
const masqueradePorts = ":32768-65535"

// tableFor returns the table of an egress interface. It admits packets neither to closed ports nor to the link of
// the node's BGP routers, which trust packets from there as the node's.
func tableFor(o pipeline.Outside, closed Closed, routers string, share int) table {
	prefixes := o.Prefixes()
	limits := shareRules(prefixes, share)
	return table{sets: append(closed.sets(), senderSets()...), chains: []chain{
		closed.rulesHere(),
		closed.rulesThere(),
		masquerade(prefixes),
		loopbackGuard(),
		switchGuard(),
		ownSources(),
		keepSources(prefixes),
		translatedSources(),
		answersOnly(prefixes),
		privateOut(prefixes),
		privateIn(prefixes),
		errorsFromInfra(prefixes),
		enterGuard(routers),
		segmentsThatFit(),
		// After the other rules: packets that those drop do not count.
		shareHere(slices.Concat(limits, infraShareRules(share))),
		shareThere(slices.Concat(limits, serverShareRules(prefixes), infraShareRules(share))),
	}}
}

// tableForInfra returns the table without an egress interface: hosts have addresses in infra networks
// nevertheless.
func tableForInfra(closed Closed, share int) table {
	return table{sets: append(closed.sets(), senderSets()...), chains: []chain{
		closed.rulesHere(),
		closed.rulesThere(),
		loopbackGuard(),
		switchGuard(),
		ownSources(),
		translatedSources(),
		errorsFromInfra(nil),
		shareHere(infraShareRules(share)),
		shareThere(infraShareRules(share)),
	}}
}

// masquerade gives packets of endpoints that leave the host an address of the host.
func masquerade(prefixes []netip.Prefix) chain {
	c := chain{name: "leave-masquerade", kind: knftables.NATType, hook: knftables.PostroutingHook, priority: keepPriority}
	for _, p := range prefixes {
		out := knftables.Concat(version(p), "saddr", p, "oifname !=", quoted(outsideLink))
		c.rules = append(c.rules, rule{
			text:    knftables.Concat(out, "meta l4proto { tcp, udp, sctp } masquerade to", masqueradePorts, "fully-random"),
			comment: fmt.Sprintf("endpoints of %s go out as the host, from random ports", p),
		}, rule{
			text:    knftables.Concat(out, "masquerade"),
			comment: fmt.Sprintf("endpoints of %s go out as the host", p),
		})
	}
	return c
}

// enterGuard drops what the host must not forward to the egress interface, or from it.
func enterGuard(routers string) chain {
	return chain{chainEnter, knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, []rule{{
		text:    knftables.Concat("oifname", quoted(outsideLink), "ct state { invalid, new, untracked } drop"), // invalid: what answers nobody
		comment: "only answers are forwarded to endpoints",
	}, {
		// They would pass from one tenant to another, with the host's address.
		text:    knftables.Concat("iifname", quoted(outsideLink), "oifgroup", infraGroup, "drop"),
		comment: "no way into infra networks",
	}, {
		text:    knftables.Concat("iifname", quoted(outsideLink), "oifname", quoted(routers), "drop"),
		comment: "no way to the node's routers",
	}}}
}

// segmentsThatFit limits the segments of TCP connections of endpoints to the MTU of their way. Path MTU discovery may
// fail: many routers send no error for a packet that is too big, or it is lost.
func segmentsThatFit() chain {
	return chain{"leave-mss", knftables.FilterType, knftables.ForwardHook, knftables.ManglePriority, []rule{{
		text:    knftables.Concat("iifname", quoted(outsideLink), "tcp flags & (syn|rst) == syn tcp option maxseg size set rt mtu"),
		comment: "segments that fit the way",
	}}}
}

// shareHere limits what endpoints send to the host itself, shareThere what it forwards.
func shareHere(limits []rule) chain {
	return chain{"share-here", knftables.FilterType, knftables.InputHook, lastPriority, limits}.fromAllEndpoints()
}

func shareThere(limits []rule) chain {
	return chain{"share-there", knftables.FilterType, knftables.ForwardHook, lastPriority, limits}.fromAllEndpoints()
}

// switchGuard prevents the host's IP stack from receiving packets that endpoints send to the switch: with a
// userspace switch the kernel receives on their links, too. Sysctls of these links prevent it as well, but sysctls
// of all links may override them.
func switchGuard() chain {
	links := knftables.Concat("iifgroup {", drivers.LinkGroup(pipeline.VXLAN), ",", drivers.LinkGroup(pipeline.VLAN), "}")
	return chain{"switch-guard", knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority, []rule{
		{knftables.Concat(links, "drop"), "what endpoints send is the switch's"},
	}}
}

// ownSources drops forwarded packets to endpoints with an address of this host as source, since packets of the
// host are exempt from policies. For IPv6 the kernel does not check that itself. Into infra networks, where little is
// forwarded, that also holds for packets of connections: they would be answers of the host's services.
func ownSources() chain {
	const why = "only the host sends as the host"
	return chain{"own-sources", knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, []rule{
		{knftables.Concat("oifname", quoted(outsideLink), "ct state new fib saddr type local drop"), why},
		{knftables.Concat("oifgroup", infraGroup, "fib saddr type local drop"), why},
	}}
}

// Priorities of DNAT, before other rules: the first rule that translates or retains a destination wins.
// kube-proxy, for example, translates node ports and external addresses to pods, with the host as source, which
// translatedSources drops.
const (
	leadPriority = knftables.DNATPriority + "-2" // our translations
	stayPriority = knftables.DNATPriority + "-1" // destinations that others must not translate
)

// Priorities of SNAT, before other rules: the first rule that translates or retains a source wins.
const (
	hidePriority = knftables.SNATPriority + "-2" // our translations
	keepPriority = knftables.SNATPriority + "-1" // what others must not translate, or not otherwise
)

// keepSources retains the source address of packets that enter through the host, since policies apply to it:
// foreign rules that masquerade on all links would make them packets of the host.
func keepSources(prefixes []netip.Prefix) chain {
	c := chain{name: "keep-sources", kind: knftables.NATType, hook: knftables.PostroutingHook, priority: keepPriority}
	for _, p := range prefixes {
		ip := version(p)
		c.rules = append(c.rules, rule{knftables.Concat("oifname", quoted(outsideLink), "iif != 0 snat", ip, "to", ip, "saddr"), "who comes in stays who it is"})
	}
	return c
}

// translatedSources is ownSources for packets that got an address of this host as source by foreign rules: at the
// egress interface by rules before keepSources, into infra networks by any.
func translatedSources() chain {
	c := chain{name: "translated-sources", kind: knftables.FilterType, hook: knftables.PostroutingHook, priority: knftables.SNATPriority + "+10"}
	for _, link := range []string{knftables.Concat("oifname", quoted(outsideLink)), knftables.Concat("oifgroup", infraGroup)} {
		c.rules = append(c.rules, rule{knftables.Concat(link, "iif != 0 ct state new fib saddr type local drop"), "nobody is made the host"})
	}
	return c
}

// answersOnly prevents endpoints from opening connections to the host's address on the link. Packets to that
// address are exempt from policies, as they should be replies to packets of the host, which are exempt, too; and
// host ports and node ports at it would be forwarded to other endpoints. So this check precedes their translation.
// The rules for ICMP errors are here because they apply to packets to this host and to others alike.
func answersOnly(prefixes []netip.Prefix) chain {
	c := chain{"answers-only", knftables.FilterType, knftables.PreroutingHook, knftables.ManglePriority, slices.Concat(pathMTU(prefixes), errorsOfOthers(prefixes))}
	for _, p := range prefixes {
		to := knftables.Concat(version(p), "daddr", pipeline.OutsideAddress(p, pipeline.OutsideHost))
		c.rules = append(c.rules, rule{ // by flags: conntrack may have lost the entry of an open connection
			text:    knftables.Concat(to, "tcp flags & (syn | ack) == syn drop"),
			comment: "no endpoint begins connections to the host as such",
		}, rule{
			text:    knftables.Concat(to, "meta l4proto != tcp ct state new drop"),
			comment: "nor sends it what is no answer",
		})
	}
	return c.fromEndpoints()
}

// lastPriority follows the other filter chains.
const lastPriority = knftables.FilterPriority + "+10"

// chainEnter is the chain of packets that are forwarded to endpoints.
const chainEnter = "enter"

func version(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip"
	}
	return "ip6"
}

// addressKind returns the nftables type of addresses of an IP family; suffix is appended to the names of its sets.
func addressKind(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ipv4_addr"
	}
	return "ipv6_addr"
}

func suffix(p netip.Prefix) string {
	if p.Addr().Is4() {
		return ""
	}
	return "6"
}

func quoted(s string) string { return `"` + s + `"` }

// rules maintains one nftables table.
type rules struct {
	family  knftables.Family // empty: inet
	table   string           // its name; empty: tableName
	nft     knftables.Interface
	applied table  // last written content
	listed  string // listing by nft(8) after that; empty: another version may have written other rules
	at      uint32 // generation in which the listing was unchanged
	passed  uint32 // generation in which no foreign chain was in the way
	remade  bool   // it was written where it was not as this process has left it, as after a restart of a firewall
}

// open opens the kernel's nftables, by nft(8).
func (r *rules) open() (err error) {
	if r.family == "" {
		r.family = knftables.InetFamily
	}
	if r.table == "" {
		r.table = tableName
	}
	if r.nft == nil {
		if r.nft, err = knftables.New(r.family, r.table); err != nil {
			return fault.New(fault.Unsupported, "nftables, which table %s %s needs: %w", r.family, r.table, err)
		}
	}
	return nil
}

// apply makes the table as wanted, in one transaction, unless it already is. Elements that rules have added to
// sets remain while the rules that add them are unchanged: a change does not reset an endpoint's share of
// connections.
func (r *rules) apply(ctx context.Context, want table) error {
	if err := r.open(); err != nil {
		return err
	}
	now := generation() // before the listing: later changes are seen the next time
	ours := r.listed != "" && (now != 0 && now == r.at || r.list(ctx, r.applied) == r.listed)
	if ours && reflect.DeepEqual(r.applied, want) {
		r.at = now
		return nil
	}
	tx := r.nft.NewTransaction()
	if ours && slices.Equal(r.applied.adding(), want.adding()) {
		r.applied.clear(tx, want)
	} else {
		tx.Add(&knftables.Table{})
		tx.Delete(&knftables.Table{})
		tx.Add(&knftables.Table{Comment: knftables.PtrTo("made by netplugin")})
	}
	for _, s := range want.sets {
		tx.Add(s.declared())
		for i, element := range s.elements {
			if s.leadsTo != "" {
				tx.Add(&knftables.Element{Map: s.name, Key: []string{element}, Value: []string{s.values[i]}})
			} else {
				tx.Add(&knftables.Element{Set: s.name, Key: []string{element}})
			}
		}
	}
	for _, c := range want.chains {
		base := &knftables.Chain{Name: c.name, Type: &c.kind, Hook: &c.hook, Priority: &c.priority}
		if link, ok := want.links[c.name]; ok {
			base.Device = &link
		}
		tx.Add(base)
		for _, rule := range c.rules {
			tx.Add(&knftables.Rule{Chain: c.name, Rule: rule.text, Comment: &rule.comment})
		}
	}
	if err := r.nft.Run(ctx, tx); err != nil {
		r.listed = "" // unknown until the transaction has succeeded
		return fault.New(fault.Unavailable, "nftables table %s %s: %w", r.family, r.table, err)
	}
	r.applied, r.at, r.remade = want, generation(), r.remade || !ours
	r.listed = r.list(ctx, want)
	return nil
}

// adding returns the rules that add elements to sets. Elements retain the limit of the rule that added them.
func (t table) adding() (all []rule) {
	for _, c := range t.chains {
		all = append(all, slices.DeleteFunc(slices.Clone(c.rules), func(r rule) bool { return !strings.Contains(r.text, "add @") })...)
	}
	return all
}

// clear removes the chains of the table, and those elements of its sets that rules have not added. Wanted sets
// remain. Chains are recreated: of several with the same hook and priority the first that translates a packet
// wins, and their order is the order of creation.
func (t table) clear(tx *knftables.Transaction, want table) {
	for _, c := range t.chains {
		tx.Flush(&knftables.Chain{Name: c.name}) // all chains first: rules refer to sets
		tx.Delete(&knftables.Chain{Name: c.name})
	}
	for _, s := range t.sets {
		switch {
		case !slices.ContainsFunc(want.sets, func(w set) bool { return w.name == s.name }):
			tx.Delete(s.declared())
		case !s.dynamic:
			tx.Flush(s.declared())
		}
	}
}

// list returns the listing of the table by nft(8), without elements that rules have added to sets; "" if it cannot
// be listed, and then it is rewritten.
func (r *rules) list(ctx context.Context, t table) string {
	listings := [][]string{{"--terse", "list", "table", string(r.family), r.table}}
	for _, s := range t.sets {
		if !s.dynamic { // one by one: nft 1.0.6 lists only the last of several
			listings = append(listings, []string{"list", map[bool]string{true: "set", false: "map"}[s.leadsTo == ""], string(r.family), r.table, s.name})
		}
	}
	all := ""
	for _, listing := range listings {
		out, err := exec.CommandContext(ctx, "nft", append([]string{"--stateless"}, listing...)...).Output()
		if err != nil {
			return ""
		}
		all += string(out)
	}
	return all
}

// there reports whether the table exists, of this process or an earlier one.
func (r *rules) there(ctx context.Context) bool { return r.open() == nil && r.list(ctx, table{}) != "" }

// remove removes the table; a missing table is not an error.
func (r *rules) remove(ctx context.Context) error {
	if err := r.open(); err != nil {
		return err
	}
	tx := r.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	if err := r.nft.Run(ctx, tx); err != nil {
		return fault.New(fault.Unavailable, "nftables table %s %s: %w", r.family, r.table, err)
	}
	return nil
}
