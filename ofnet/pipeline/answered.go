package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// answered counts the answers of services' providers. Several ports of a service may map to one port of its
// provider, so that the port does not identify the requested one. The connection does, once it has been looked
// up, but then the packet does not contain the provider any more; so that is saved:
//
//	OUTPUT, FORWARD  from a provider: its address to SCRATCH, ct(nat), continues in ANSWERED
//	ANSWERED         resubmits an answer to COUNTED; then back to where it was looked up
//	COUNTED          by provider, and by the address, protocol and port of the service in the connection
//
// Answers are counted where they are translated, on the client's node, as requests are. What a provider sends
// to a client that has reached it directly is no answer of the service.
type answered struct{}

func (answered) base(w *Wants) {
	ask := openflow.Resubmit{Table: tableCounted}
	w.flow(
		at(tableAnswered, priorityExcept, regOut.is(0), answering()).do(ask).backTo(tableForward), // which sets the port it leaves by
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

// lookUpAnswer looks up what a provider sends. It is the same for all services that have the provider.
func (o Service) lookUpAnswer(by netip.Addr) (actions []openflow.Action) {
	for _, word := range kept(by) {
		actions = append(actions, set(word))
	}
	return append(actions, o.translate(tableAnswered))
}

// countAnswers adds flows that count the answers from a port by provider. Of ports with separate providers,
// such as those of services of Kubernetes, the answers are not needed.
func (o indexedService) countAnswers(w *Wants, p ServicePort) {
	if p.Target == 0 {
		return
	}
	for _, a := range o.counted(p) {
		w.flow(at(tableCounted, priorityExact, append(o.match(familyOf(a).is(), answering(), p.mark(), p.label()), kept(a)...)...).end())
	}
}
