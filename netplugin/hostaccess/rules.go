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

// tableName is that of our tables of nftables: of family inet, of family netdev for what tunnels bring (tunnels.go),
// and of family arp (routerarp.go). strangerTableName is the one of family inet for what strangers send into tunnels
// (strangers.go), which is there without any other. Nobody else's is touched.
const (
	tableName         = "contiv"
	strangerTableName = "contiv-vteps"
)

// table is what our table should hold.
type table struct {
	sets   []set
	chains []chain
	links  map[string]string // in family netdev: the link whose packets a chain, by its name, is about
}

// set is a named set of what rules compare with, or a map.
type set struct {
	name, kind string
	elements   []string
	values     []string      // of a map, one for each element
	leadsTo    string        // their kind; empty: no map
	dynamic    bool          // rules add the elements
	forgets    time.Duration // an element that no rule has added again; 0: never
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

// chain is a base chain of our table with its rules; a rule has a comment for who reads them.
type chain struct {
	name     string
	kind     knftables.BaseChainType
	hook     knftables.BaseChainHook
	priority knftables.BaseChainPriority
	rules    []rule
}

// fromEndpoints is a chain whose rules are about what endpoints send by the way out and nothing
// else: every other packet of the host, such as all that tunnels bring, is through with one look.
func (c chain) fromEndpoints() chain { return c.judging("iifname !=", quoted(outsideLink)) }

// fromAllEndpoints is the same, and about what they send to the host's addresses in infra networks, too.
func (c chain) fromAllEndpoints() chain {
	return c.judging("iifname !=", quoted(outsideLink), "iifgroup !=", infraGroup)
}

func (c chain) judging(except ...any) chain {
	others := rule{knftables.Concat(append(except, "accept")...), "nothing else is judged here"}
	c.rules = append([]rule{others}, c.rules...)
	return c
}

type rule struct{ text, comment string }

// tableFor is the table of a way out, which leads neither to what is closed nor out of
// the link to the routers: they take what comes from there for the node's word.
func tableFor(o pipeline.Outside, closed Closed, routers string, share int) table {
	prefixes := o.Prefixes()
	limits := shareRules(prefixes, share)
	masquerade := chain{name: "leave-masquerade", kind: knftables.NATType, hook: knftables.PostroutingHook, priority: knftables.SNATPriority}
	for _, p := range prefixes {
		masquerade.rules = append(masquerade.rules, rule{
			text:    knftables.Concat(version(p), "saddr", p, "oifname !=", quoted(outsideLink), "masquerade"),
			comment: fmt.Sprintf("endpoints of %s go out as the host", p),
		})
	}
	return table{sets: append(closed.sets(), senderSets()...), chains: append(closed.chains(), masquerade, loopbackGuard(), switchGuard(), ownSources(), keepSources(prefixes), translatedSources(), answersOnly(prefixes),
		chain{chainEnter, knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, []rule{{
			text:    knftables.Concat("oifname", quoted(outsideLink), "ct state new drop"),
			comment: "only answers are forwarded to endpoints",
		}, {
			// Out of the one tenant and, as the host, into another one.
			text:    knftables.Concat("iifname", quoted(outsideLink), "oifgroup", infraGroup, "drop"),
			comment: "no way into infra networks",
		}, {
			text:    knftables.Concat("iifname", quoted(outsideLink), "oifname", quoted(routers), "drop"),
			comment: "no way to the node's routers",
		}}},
		chain{"leave-mss", knftables.FilterType, knftables.ForwardHook, knftables.ManglePriority, []rule{{
			// Many routers do not say that a packet was too big, or are not heard.
			text:    knftables.Concat("iifname", quoted(outsideLink), "tcp flags & (syn|rst) == syn tcp option maxseg size set rt mtu"),
			comment: "segments that fit the way",
		}}},
		// Behind the other rules: what those drop takes nobody's share.
		chain{"share-here", knftables.FilterType, knftables.InputHook, lastPriority, slices.Concat(limits, infraShareRules(share))}.fromAllEndpoints(),
		chain{"share-there", knftables.FilterType, knftables.ForwardHook, lastPriority, limits}.fromEndpoints(),
	)}
}

// tableForInfra is the table where there is no way out: hosts have addresses in infra networks all the same.
func tableForInfra(closed Closed, share int) table {
	return table{sets: append(closed.sets(), senderSets()...), chains: []chain{closed.here(), switchGuard(), translatedSources(),
		chain{"share-here", knftables.FilterType, knftables.InputHook, lastPriority, infraShareRules(share)}.fromAllEndpoints(),
	}}
}

// switchGuard keeps the host from taking what comes by the links of endpoints, which is the switch's: the kernel goes on
// receiving there beside a switch in user space. The links are closed as well, as far as what is set for all of them lets it.
func switchGuard() chain {
	links := knftables.Concat("iifgroup {", drivers.LinkGroup(pipeline.VXLAN), ",", drivers.LinkGroup(pipeline.VLAN), "}")
	return chain{"switch-guard", knftables.FilterType, knftables.PreroutingHook, knftables.RawPriority, []rule{
		{knftables.Concat(links, "drop"), "what endpoints send is the switch's"},
	}}
}

// ownSources keeps others from endpoints who send with an address of this host: policies do not judge what the host sends. Of IPv6 the
// kernel does not look at that itself.
func ownSources() chain {
	return chain{"own-sources", knftables.FilterType, knftables.ForwardHook, knftables.FilterPriority, []rule{
		{knftables.Concat("oifname", quoted(outsideLink), "ct state new fib saddr type local drop"), "only the host sends as the host"},
	}}
}

// Where destinations are translated, before the rules of others, such as those of Kubernetes' own proxy: these lead node ports and external
// addresses to pods, from an address of the host, which translatedSources drops. The first rule that translates a destination, or keeps it,
// is the last one.
const (
	leadPriority = knftables.DNATPriority + "-2" // by ourselves
	stayPriority = knftables.DNATPriority + "-1"
)

// Where sources are translated, before the rules of others. The first rule that translates a source, or keeps it, is the last one.
const (
	hidePriority = knftables.SNATPriority + "-2" // by ourselves
	keepPriority = knftables.SNATPriority + "-1"
)

// keepSources has who comes in by the host keep its address, by which policies judge it: masquerading of others on this host, which
// is not limited to some link, would have it pass for the host.
func keepSources(prefixes []netip.Prefix) chain {
	c := chain{name: "keep-sources", kind: knftables.NATType, hook: knftables.PostroutingHook, priority: keepPriority}
	for _, p := range prefixes {
		ip := version(p)
		c.rules = append(c.rules, rule{knftables.Concat("oifname", quoted(outsideLink), "iif != 0 snat", ip, "to", ip, "saddr"), "who comes in stays who it is"})
	}
	return c
}

// translatedSources is ownSources for what has got an address of this host from rules of others: by the way out those
// that translate before keepSources, and into infra networks all.
func translatedSources() chain {
	c := chain{name: "translated-sources", kind: knftables.FilterType, hook: knftables.PostroutingHook, priority: knftables.SNATPriority + "+10"}
	for _, link := range []string{knftables.Concat("oifname", quoted(outsideLink)), knftables.Concat("oifgroup", infraGroup)} {
		c.rules = append(c.rules, rule{knftables.Concat(link, "iif != 0 ct state new fib saddr type local drop"), "nobody is made the host"})
	}
	return c
}

// answersOnly keeps endpoints from beginning connections to the host's address on the link, by which they know the
// host itself. Policies do not judge what is for it, as it is an answer to what the host began, which they do not judge
// either; and host ports and node ports lead on from every address of the host. It comes before they do.
func answersOnly(prefixes []netip.Prefix) chain {
	c := chain{name: "answers-only", kind: knftables.FilterType, hook: knftables.PreroutingHook, priority: knftables.ManglePriority}
	for _, p := range prefixes {
		to := knftables.Concat(version(p), "daddr", pipeline.OutsideAddress(p, pipeline.OutsideHost))
		c.rules = append(c.rules, rule{ // an answer is one also if the tracker has forgotten the connection
			text:    knftables.Concat(to, "tcp flags & (syn | ack) == syn drop"),
			comment: "no endpoint begins connections to the host as such",
		}, rule{
			text:    knftables.Concat(to, "meta l4proto != tcp ct state new drop"),
			comment: "nor sends it what is no answer",
		})
	}
	return c.fromEndpoints()
}

// lastPriority is behind the other chains that filter.
const lastPriority = knftables.FilterPriority + "+10"

// chainEnter judges what is forwarded to endpoints.
const chainEnter = "enter"

func version(p netip.Prefix) string {
	if p.Addr().Is4() {
		return "ip"
	}
	return "ip6"
}

// addressKind is the kind of the addresses of a version of IP in sets, and suffix what their names end with.
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

// rules keeps our table of a family.
type rules struct {
	family  knftables.Family // empty: inet
	table   string           // its name; empty: tableName
	nft     knftables.Interface
	applied table  // the last one
	listed  string // what nft(8) said of it then; empty: another version may have written other rules
	at      uint32 // the generation in which it was seen to be so
	passed  uint32 // in which no chain of others was in the way
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

// apply makes the table what it should be, in one transaction, unless it is. What rules have added to
// sets stays as long as they add the same: an endpoint has no more connections for any change.
func (r *rules) apply(ctx context.Context, want table) error {
	if err := r.open(); err != nil {
		return err
	}
	now := generation() // before it is looked: what changes meanwhile is looked at the next time
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
		r.listed = "" // whatever it is that is there
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

// clear takes the chains out of the table, and of its sets what rules have not added. Sets that are wanted
// stay, chains do not: of those in one place the first that translates a packet does, and they stand as they were made.
func (t table) clear(tx *knftables.Transaction, want table) {
	for _, c := range t.chains {
		tx.Flush(&knftables.Chain{Name: c.name}) // all of them, as rules keep sets
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

// list is the table as nft(8) shows it, without what rules have added to sets; "" if it
// cannot be shown, and then it is written anew.
func (r *rules) list(ctx context.Context, t table) string {
	listings := [][]string{{"--terse", "list", "table", string(r.family), r.table}}
	for _, s := range t.sets {
		if !s.dynamic { // one by one, as nft 1.0.6 finds only the last of several
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

// there tells whether the table is there, of this process or an earlier one.
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
