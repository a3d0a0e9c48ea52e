package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// visit lets endpoints reach services of another tenant, at addresses that are served FromTenants. Tenants may have
// the same addresses, so such an endpoint is handled like one that leaves its own tenant: by its private address
// (outside.go). The packet is not sent to the host, though: the switch handles it as one that the host has sent
// back:
//
//	FORWARD  of the endpoint's tenant, without a receiver there: to the host, from the private address
//	OUTPUT   for such a service: all registers but ORIGIN are cleared, back to ROUTER
//	ROUTER   for a port of a service: as all that comes in by the host (entrance.go)
//
// and an answer as one that the host has sent to the private address:
//
//	FORWARD  from the service: registers are cleared likewise, back to SOURCE
//	SOURCE   for a private address: to the endpoint, in its own tenant
//
// So rules and policies of both tenants apply: those of the client's match the address of the service, those of
// the provider's the private address.
//
// That address has the number of the endpoint's port, which endpoints of other nodes have, too. A provider's node
// tells them apart by the node that they come by (entrance.go).
type visit struct{}

func (visit) service(w *Wants, o Service) {
	for _, a := range o.addresses(FromTenants) {
		f := familyOf(a)
		leaves := openflow.Match{regOrigin.is(originLocal), regRouted.is(1), regDstNet.is(0), f.is(), f.dst(inet.Host(a))}
		answers := openflow.Match{regOut.is(0), f.is(), f.src(inet.Host(a)), answering(), origin(originEntered)}
		w.flow(
			at(tableOutput, priorityVisit, leaves...).do(asFrom(originEntered)...).backTo(tableRouter),
			at(tableForward, priorityVisit, answers...).do(asFrom(originHost)...).backTo(tableSource))
	}
}

// asFrom makes a packet one that has just come in.
func asFrom(where uint32) []openflow.Action {
	actions := []openflow.Action{openflow.CTClear{}}
	for i := range 8 { // two registers at once
		actions = append(actions, openflow.Load{Field: openflow.FieldXReg(i), Bits: 64})
	}
	return append(actions, arrived(where)...)
}
