package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
	"github.com/contiv/netplugin/utils/inet"
)

// Affinity routes all connections of a client, by its address, to its last provider, until it has begun none for a
// while. The switch stores that itself, in flows that it learns in table AFFINITY, one for each client and port of
// the providers:
//
//	DEST      a new connection: look up the client's provider
//	            AFFINITY   a learned flow sets its number
//	            DEST       again, for the same packet
//	DEST      it has a provider that serves: ct(commit,nat(dst=provider:port))
//	          otherwise: the group of the port
//	SOURCE    a new connection that has its provider: learn(client -> provider)
//
// All addresses of a service share the learned flows. A provider that is gone or drains has no flow in DEST, so
// that its clients are assigned others. Only new connections are looked up, so only they keep a learned flow.
// Learned flows do not have the agent's cookies: only the switch adds them, and they end with their timeout, or
// with the last flow that learns for their service. What ovs-vswitchd learns after that, from packets that it
// counts late, the driver removes (Learns). They are gone when ovs-vswitchd is restarted.
//
// Two first connections of a client, while ovs-vswitchd installs a learned flow in the datapath, may get two
// providers; the last one then counts.

// maxClients is how many clients of a service are stored on a node. Further ones get any provider each time.
// For each new one ovs-vswitchd counts those of the service.
const maxClients = 16384

// keptPort holds the number of the port while a provider is chosen: the second half of DST_MAC, which gets the
// receiver's MAC later. SCRATCH holds the client's provider.
var keptPort = openflow.FieldReg(regDstMAC.Index + 1)

// kept matches the registers with a client's provider.
func kept(provider netip.Addr) openflow.Match {
	words := regScratch.words(provider)
	if provider.Is4() {
		return words[3:]
	}
	return words
}

// lookUp looks up the client's provider, and resubmits to DEST. SCRATCH is zero before: its other users are in later
// tables.
func (o indexedService) lookUp(p ServicePort) []openflow.Action {
	return []openflow.Action{set(openflow.Reg(regDstMAC.Index+1, o.remembered(p), ^uint32(0))), regAffinity.set(1),
		openflow.Resubmit{Table: tableAffinity}, openflow.Resubmit{Table: tableDest}}
}

// affinity adds the further flows of a port of a service with affinity.
func (o indexedService) affinity(w *Wants, p ServicePort) {
	f := familyOf(p.Address)
	begins := append(o.fragments(p), p.begins())
	for _, m := range begins {
		w.flow(o.fresh(priorityExcept, p, m...).do(o.lookUp(p)...).end())
	}
	serving, _ := o.providers(p)
	for i, provider := range serving {
		a := provider.Addr()
		if i > 0 && serving[i-1].Addr() == a {
			continue // a client keeps an address: if it has several ports, the first
		}
		w.flow(at(tableSource, priorityService, slices.Concat(o.match(f.is(), f.dst(inet.Host(a)),
			openflow.CTState(openflow.CTNew|openflow.CTTrk, openflow.CTNew|openflow.CTTrk), p.mark(), p.label()), o.outer(p))...).
			do(o.learn(p, a)).goTo(tableDest))
		for _, m := range begins {
			w.flow(o.fresh(priorityKept, p, slices.Concat(m, openflow.Match{regAffinity.is(1)}, kept(a))...).
				do(o.commit(p, provider)...).end())
		}
	}
}

// learn returns the action that stores the provider of a packet's sender.
func (o indexedService) learn(p ServicePort, provider netip.Addr) openflow.Learn {
	f := familyOf(provider)
	a := openflow.Learn{IdleTimeout: o.Affinity, Priority: priorityExact, Cookie: o.learnedCookie(), Delete: true,
		Table: tableAffinity, Limit: maxClients, Specs: []openflow.LearnSpec{
			{Value: o.remembered(p), Dst: openflow.Whole(keptPort)},
			{Value: uint32(f.ethType), Dst: openflow.Whole(openflow.FieldEthType)},
			{Src: openflow.Whole(f.srcField), Dst: openflow.Whole(f.srcField)},
		}}
	for _, word := range kept(provider) {
		a.Specs = append(a.Specs, openflow.LearnSpec{Value: uint32(word.Value.Lo), Dst: openflow.Whole(word.Field), Load: true})
	}
	return a
}

// Learns returns the cookies of the flows that the switch learns by a flow; only flows of an Affinity have any.
func Learns(f openflow.Flow) (cookies []uint64) {
	for _, a := range f.Actions {
		if learn, is := a.(openflow.Learn); is {
			cookies = append(cookies, learn.Cookie)
		}
	}
	return cookies
}

// learnedCookie returns the cookie of the flows that the switch learns for a service; no other flow has it. Flows with
// another timeout have another cookie: they are removed with the last flow that learns for the old one.
func (o Service) learnedCookie() uint64 { return cookie.Learned(Cookie(o.Key())) ^ uint64(o.Affinity) }
