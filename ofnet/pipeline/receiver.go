package pipeline

import (
	"fmt"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
	"github.com/contiv/netplugin/utils/inet"
)

// Departed records in the switch the addresses of a removed endpoint, while its connections are still to be
// ended. No packet reaches these flows.
func Departed(e Endpoint) Wants {
	w := Wants{}
	for _, a := range addresses(e.IPv4, e.IPv6) {
		f := familyOf(a)
		flow := at(tableDeparted, priorityExact, f.is(), regVRF.is(uint32(e.VRF)), f.dst(inet.Host(a))).end()
		flow.Cookie = cookie.New(cookie.Departed, fmt.Sprint(e.VRF, a))
		w.flow(flow)
	}
	return w
}

// ReceiverOf parses flows of dest and Departed: it returns the endpoint of a routed network that a flow of the
// switch finds by VRF and address, or a removed one of any network. It has no more than ConnectionsOf needs to
// list all of its connections that may be tracked.
func ReceiverOf(flow openflow.Flow) (e Endpoint, is bool) {
	class := cookie.ClassOf(flow.Cookie)
	exists, isGone := flow.Table == tableDest && class == cookie.Endpoint, flow.Table == tableDeparted && class == cookie.Departed
	if !cookie.Ours(flow.Cookie) || !exists && !isGone {
		return Endpoint{}, false
	}
	vrf, _ := flow.Match.Get(openflow.FieldReg(regVRF.Index))
	e = Endpoint{Local: true, Tiers: Tracked, VRF: uint16(vrf.Value.Lo)}
	for _, f := range []family{ipv4(), ipv6()} {
		if to, has := flow.Match.Get(f.dstField); has && to.IsExact() {
			a := f.address(to.Value)
			if a.Is4() {
				e.IPv4 = a
			} else {
				e.IPv6 = a
			}
		}
	}
	return e, vrf == regVRF.is(uint32(e.VRF)) && e.IPv4.IsValid() != e.IPv6.IsValid()
}
