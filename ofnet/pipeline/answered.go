package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// answered counts what the providers of services answer. Several ports of a service may lead to one of its
// provider's, which does not say then which of them was asked. The connection does, once it has been looked up, and the
// packet no more who has answered; so that is kept:
//
//	OUTPUT, FORWARD  from a provider: its address to SCRATCH, ct(nat), and on in ANSWERED
//	ANSWERED         asks COUNTED about an answer; then back to where it was looked up
//	COUNTED          by provider, and by the address, protocol and port of the service that the connection says
//
// Answers are counted where they are translated, on the node by which the client asks, as requests are. What a provider
// sends to somebody who has asked it directly is no answer of the service.
type answered struct{}

func (answered) base(w *Wants) {
	ask := openflow.Resubmit{Table: tableCounted}
	w.flow(
		at(tableAnswered, priorityExcept, regOut.is(0), answering()).do(ask).backTo(tableForward), // which says what it leaves by
		at(tableAnswered, priorityExact, regOut.is(0)).backTo(tableForward),
		at(tableAnswered, priorityOther, answering()).do(ask).backTo(tableOutput))
	for _, f := range []family{ipv4(), ipv6()} {
		about := openflow.Match{regOut.is(0), f.is(), f.isICMP(), openflow.CTState(told, told)}
		w.flow(
			at(tableAnswered, priorityKept, append(about, origin(originTunnel))...).do(ask).backTo(tableForward),
			at(tableAnswered, priorityHairpin, about...).do(ask, inVRF(tableForward, openflow.NAT{})).end())
	}
}

// told is the state of what a provider says about a packet of a connection.
const told = openflow.CTTrk | openflow.CTRel | openflow.CTRpl

// lookUpError looks up what a provider says about a packet, and translates it if the client has not come in by another
// node, which does that.
func (o Service) lookUpError(by netip.Addr) (actions []openflow.Action) {
	for _, word := range kept(by) {
		actions = append(actions, set(word))
	}
	return append(actions, openflow.CT{Zone: o.VRF, Recirculate: true, Table: tableAnswered})
}

// lookUpAnswer looks up what a provider sends. All services that have the provider want the same of it.
func (o Service) lookUpAnswer(by netip.Addr) (actions []openflow.Action) {
	for _, word := range kept(by) {
		actions = append(actions, set(word))
	}
	return append(actions, o.translate(tableAnswered))
}

// countAnswers has those from a port counted by provider. Of ports that have providers of their own, as those of services of
// Kubernetes, nobody asks what was answered.
func (o arranged) countAnswers(w *Wants, p ServicePort) {
	if p.Target == 0 {
		return
	}
	for _, a := range o.counted(p) {
		w.flow(at(tableCounted, priorityExact, append(o.match(familyOf(a).is(), answering(), p.mark(), p.label()), kept(a)...)...).end())
	}
}
