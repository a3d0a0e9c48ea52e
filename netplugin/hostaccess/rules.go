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

// tableName is the name of our nftables tables: of family inet, of family netdev for the kernel's copies of tunnelled
// packets (tunnels.go), and of family arp (routerarp.go). strangerTableName is a table of family inet against packets of
// strangers to the tunnels (strangers.go), which has a life of its own. Tables of others are not touched.
const (
	tableName         = "contiv"
	strangerTableName = "contiv-vteps"
)

// table is the wanted content of a table of ours.
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
	leadsTo    string        // the kind of the values; empty: no map
	dynamic    bool          // rules add the elements
	forgets    time.Duration // timeout of elements that no rule has added again; 0: none
}

// declared is the set without its elements.
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

// maxSenders is how many elements rules may add to a set: as many as there are ports.
const maxSenders = 1 << 16

// chain is a base chain of our table with its rules. Each rule has a comment, which listings show.
type chain struct {
	name     string
	kind     knftables.BaseChainType
	hook     knftables.BaseChainHook
	priority knftables.BaseChainPriority
	rules    []rule
}

// fromEndpoints limits a chain to packets that endpoints send by the way out. One rule decides that first, so that all
// other packets of the host, such as those of tunnels, cost no more than that.
func (c chain) fromEndpoints() chain { return c.judging("iifname !=", quoted(outsideLink)) }

// fromAllEndpoints is the same, with the packets that come by the host's interfaces in infra networks.
func (c chain) fromAllEndpoints() chain {
	return c.judging("iifname !=", quoted(outsideLink), "iifgroup !=", infraGroup)
}

func (c chain) judging(except ...any) chain {
	others := rule{knftables.Concat(append(except, "accept")...), "nothing else is judged here"}
	c.rules = append([]rule{others}, c.rules...)
	return c
}

type rule struct{ text, comment string }

// masqueradePorts are the ports from which endpoints go out, at random: those above the default range of node ports. If an endpoint
// chose its port, such as that of tunnels, the connection tracker would take what the other machine sends to that port of the host
// for answers to the endpoint: other tenants' packets in tunnels, clients of node ports, of the store or of netmasters. A port of
// the host in this range is hit by chance only. Rules of others that masquerade keep the port, so ours come before.
const masqueradePorts = ":32768-65535"

// tableFor is the table of a way out. It leads neither to closed ports nor to the link of the node's BGP
// routers, which trust packets from there as the node's.
func tableFor(o pipeline.Outside, closed Closed, routers string, share int) table {
	prefixes := o.Prefixes()
	limits := shareRules(prefixes, share)
	masquerade := chain{name: "leave-masquerade", kind: knftables.NATType, hook: knftables.PostroutingHook, priority: keepPriority}
	for _, p := range prefixes {
		out := knftables.Concat(version(p), "saddr", p, "oifname !=", quoted(outsideLink))
		masquerade.rules = append(masquerade.rules, rule{
			text:    knftables.Concat(out, "meta l4proto { tcp, udp, sctp } masquerade to", masqueradePorts, "fully-random"),
			comment: fmt.Sprintf("endpoints of %s go out as the host, from random ports", p),
		}, rule{
			text:    knftables.Concat(out, "masquerade"),
			comment: fmt.Sprintf("endpoints of %s go out as the host", p),
		})
	}
	return table{sets: append(closed.sets(), senderSets()...), chains: append([]chain{closed.rulesHere(), closed.rulesThere()}, masquerade, loopbackGuard(), switchGuard(), ownSources(), keepSources(prefixes), translatedSources(), answersOnly(prefixes),
		chain{chainEnter, knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, []rule{{
			text:    knftables.Concat("oifname", quoted(outsideLink), "ct state { invalid, new, untracked } drop"), // invalid: what answers nobody
			comment: "only answers are forwarded to endpoints",
		}, {
			// They would go from one tenant to another, with the host's address.
			text:    knftables.Concat("iifname", quoted(outsideLink), "oifgroup", infraGroup, "drop"),
			comment: "no way into infra networks",
		}, {
			text:    knftables.Concat("iifname", quoted(outsideLink), "oifname", quoted(routers), "drop"),
			comment: "no way to the node's routers",
		}}},
		chain{"leave-mss", knftables.FilterType, knftables.ForwardHook, knftables.ManglePriority, []rule{{
			// Path MTU discovery may fail: many routers send no error for a packet that is too big, or it is lost.
			text:    knftables.Concat("iifname", quoted(outsideLink), "tcp flags & (syn|rst) == syn tcp option maxseg size set rt mtu"),
			comment: "segments that fit the way",
		}}},
		// Behind the other rules: packets that those drop do not count.
		chain{"share-here", knftables.FilterType, knftables.InputHook, lastPriority, slices.Concat(limits, infraShareRules(share))}.fromAllEndpoints(),
		chain{"share-there", knftables.FilterType, knftables.ForwardHook, lastPriority, limits}.fromEndpoints(),
	)}
}

// tableForInfra is the table where there is no way out: hosts have addresses in infra networks all the same.
func tableForInfra(closed Closed, share int) table {
	return table{sets: append(closed.sets(), senderSets()...), chains: []chain{closed.rulesHere(), closed.rulesThere(), switchGuard(), translatedSources(),
		chain{"share-here", knftables.FilterType, knftables.InputHook, lastPriority, infraShareRules(share)}.fromAllEndpoints(),
	}}
}

// switchGuard keeps the host's IP stack from receiving what endpoints send into the switch: beside a userspace switch the kernel
// receives on their links, too. Settings of these links are against that as well, but settings of all links may override them.
func switchGuard() chain {
	links := knftables.Concat("iifgroup {", drivers.LinkGroup(pipeline.VXLAN), ",", drivers.LinkGroup(pipeline.VLAN), "}")
	return chain{"switch-guard", knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority, []rule{
		{knftables.Concat(links, "drop"), "what endpoints send is the switch's"},
	}}
}

// ownSources drops forwarded packets to endpoints with an address of this host as source: no policy applies to packets of
// the host. For IPv6 the kernel does not check that itself.
func ownSources() chain {
	return chain{"own-sources", knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, []rule{
		{knftables.Concat("oifname", quoted(outsideLink), "ct state new fib saddr type local drop"), "only the host sends as the host"},
	}}
}

// Priorities of DNAT, before the rules of others: the first rule that translates a destination, or keeps it, wins. kube-proxy, for
// example, translates node ports and external addresses to pods, with the host as source, which translatedSources drops.
const (
	leadPriority = knftables.DNATPriority + "-2" // our translations
	stayPriority = knftables.DNATPriority + "-1" // destinations that others must not translate
)

// Priorities of SNAT, before the rules of others: the first rule that translates a source, or keeps it, wins.
const (
	hidePriority = knftables.SNATPriority + "-2" // our translations
	keepPriority = knftables.SNATPriority + "-1" // what others must not translate, or not otherwise
)

// keepSources has packets that come in by the host keep their source address, to which policies apply: rules of others
// that masquerade on all links would make them packets of the host.
func keepSources(prefixes []netip.Prefix) chain {
	c := chain{name: "keep-sources", kind: knftables.NATType, hook: knftables.PostroutingHook, priority: keepPriority}
	for _, p := range prefixes {
		ip := version(p)
		c.rules = append(c.rules, rule{knftables.Concat("oifname", quoted(outsideLink), "iif != 0 snat", ip, "to", ip, "saddr"), "who comes in stays who it is"})
	}
	return c
}

// translatedSources is ownSources for packets that got an address of this host as source by rules of others: on the way out by
// rules before keepSources, into infra networks by any.
func translatedSources() chain {
	c := chain{name: "translated-sources", kind: knftables.FilterType, hook: knftables.PostroutingHook, priority: knftables.SNATPriority + "+10"}
	for _, link := range []string{knftables.Concat("oifname", quoted(outsideLink)), knftables.Concat("oifgroup", infraGroup)} {
		c.rules = append(c.rules, rule{knftables.Concat(link, "iif != 0 ct state new fib saddr type local drop"), "nobody is made the host"})
	}
	return c
}

// answersOnly keeps endpoints from beginning connections to the host's address on the link. No policy applies to
// packets to it, since they should be answers to packets of the host, to which none applies either; and host ports and
// node ports at it would lead on to other endpoints. So it comes before their translation. The rules for ICMP errors are here because they
// concern packets to this host and to others alike.
func answersOnly(prefixes []netip.Prefix) chain {
	c := chain{"answers-only", knftables.FilterType, knftables.PreroutingHook, knftables.ManglePriority, slices.Concat(pathMTU(prefixes), errorsOfOthers(prefixes))}
	for _, p := range prefixes {
		to := knftables.Concat(version(p), "daddr", pipeline.OutsideAddress(p, pipeline.OutsideHost))
		c.rules = append(c.rules, rule{ // by flags: conntrack may have lost the entry of a connection that goes on
			text:    knftables.Concat(to, "tcp flags & (syn | ack) == syn drop"),
			comment: "no endpoint begins connections to the host as such",
		}, rule{
			text:    knftables.Concat(to, "meta l4proto != tcp ct state new drop"),
			comment: "nor sends it what is no answer",
		})
	}
	return c.fromEndpoints()
}

// lastPriority is after the other filter chains.
const lastPriority = knftables.FilterPriority + "+10"

// chainEnter is the chain of packets that are forwarded to endpoints.
const chainEnter = "enter"

func version(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip"
	}
	return "ip6"
}

// addressKind is the nftables type of addresses of a version of IP, and suffix the end of the names of its sets.
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

// rules keeps one table of ours.
type rules struct {
	family  knftables.Family // empty: inet
	table   string           // its name; empty: tableName
	nft     knftables.Interface
	applied table  // the last content
	listed  string // its listing by nft(8) then; empty: another version may have written other rules
	at      uint32 // the generation in which the listing was the same
	passed  uint32 // the generation in which no chain of others was in the way
}

// open finds out how to speak to the kernel's nftables: by nft(8).
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

// apply makes the table what it should be, in one transaction, unless it is. Elements that rules have added to
// sets stay while the rules that add them are the same: a change does not reset an endpoint's share of connections.
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
	r.applied, r.at = want, generation()
	r.listed = r.list(ctx, want)
	return nil
}

// adding are the rules that add elements to sets. Elements keep the limit of the rule that added them.
func (t table) adding() (all []rule) {
	for _, c := range t.chains {
		all = append(all, slices.DeleteFunc(slices.Clone(c.rules), func(r rule) bool { return !strings.Contains(r.text, "add @") })...)
	}
	return all
}

// clear removes the chains of the table, and those elements of its sets that rules have not added. Wanted sets
// stay. Chains are made anew: of several with one hook and priority the first that translates a packet wins, and their order
// is that in which they were made.
func (t table) clear(tx *knftables.Transaction, want table) {
	for _, c := range t.chains {
		tx.Flush(&knftables.Chain{Name: c.name}) // of all chains: rules refer to sets
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

// list is the table as nft(8) lists it, without elements that rules have added to sets; "" if it
// cannot be listed, and then it is written anew.
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

// there tells whether the table exists, of this process or an earlier one.
func (r *rules) there(ctx context.Context) bool { return r.open() == nil && r.list(ctx, table{}) != "" }

// remove removes the table; one that is not there is no error.
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
