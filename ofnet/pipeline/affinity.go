package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
	"github.com/contiv/netplugin/utils/inet"
)

// Affinity gives all connections of a client, by its address, to the provider that it had
// last, until it has begun none for a while. The switch remembers that by itself, in
// flows that it learns in table AFFINITY, one for each client and port of the providers:
//
//	DEST      a new connection: which provider does this client have?
//	            AFFINITY   a learned flow tells its number
//	            DEST       begins again, for the same packet
//	DEST      it has a provider that serves: ct(commit,nat(dst=provider:port))
//	          otherwise: the group of the port
//	SOURCE    a new connection that has its provider: learn(client -> provider)
//
// All addresses of a service share what is learned. A provider that has gone or drains has
// no flow in DEST, so that its clients are given others. New connections alone are looked
// up, so these are what keeps a learned flow. Learned flows are not of our cookies: nobody
// but the switch adds them, and they end with their time, or with the last flow that learns
// for their service, but for what ovs-vswitchd learns after that from packets it counts late: that is
// the driver's to remove (Learns). They are gone when ovs-vswitchd is restarted.
//
// Two first connections of a client, in the moment that ovs-vswitchd needs to tell the
// datapath of a learned flow, may get two providers; the last one then counts.

// maxClients is how many clients of a service are remembered on a node. More are served by
// any provider each time. For each one that is new, ovs-vswitchd counts those of the service.
const maxClients = 16384

// keptPort holds the number of the port while a provider is chosen: the second half of DST_MAC, which
// gets the receiver's MAC later. SCRATCH holds the client's provider.
var keptPort = openflow.FieldReg(regDstMAC.Index + 1)

// kept are the registers that tell a client's provider.
func kept(provider netip.Addr) openflow.Match {
	words := regScratch.words(provider)
	if provider.Is4() {
		return words[3:]
	}
	return words
}

// lookUp asks for the client's provider, and begins again in DEST. SCRATCH is zero before:
// what uses it goes on in other tables.
func (o arranged) lookUp(p ServicePort) []openflow.Action {
	return []openflow.Action{set(openflow.Reg(regDstMAC.Index+1, o.remembered(p), ^uint32(0))), regAffinity.set(1),
		openflow.Resubmit{Table: tableAffinity}, openflow.Resubmit{Table: tableDest}}
}

// affinity is what a port of a service with affinity has besides.
func (o arranged) affinity(w *Wants, p ServicePort) {
	f := familyOf(p.Address)
	begins := append(o.fragments(p), p.begins())
	for _, m := range begins {
		w.flow(o.fresh(priorityExcept, p, m...).do(o.lookUp(p)...).end())
	}
	serving, _ := o.providers(p)
	for i, provider := range serving {
		a := provider.Addr()
		if i > 0 && serving[i-1].Addr() == a {
			continue // a client keeps an address: of several ports it has, the first
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

// learn remembers the provider of a packet's sender.
func (o arranged) learn(p ServicePort, provider netip.Addr) openflow.Learn {
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

// Learns returns the cookies of the flows that the switch learns by a flow; none but an Affinity's does.
func Learns(f openflow.Flow) (cookies []uint64) {
	for _, a := range f.Actions {
		if learn, is := a.(openflow.Learn); is {
			cookies = append(cookies, learn.Cookie)
		}
	}
	return cookies
}

// learnedCookie is that of the flows that the switch learns for a service; it is none of
// ours. Those of another timeout have another cookie: with the last flow that learns for
// the old one, they go.
func (o Service) learnedCookie() uint64 { return cookie.Learned(Cookie(o.Key())) ^ uint64(o.Affinity) }
