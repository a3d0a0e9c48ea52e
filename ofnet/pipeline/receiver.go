package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// ReceiverOf is dest read backwards: the endpoint of a routed network that a flow of the switch finds by VRF
// and address. It has no more than ConnectionsOf needs to name all that may be tracked of it.
func ReceiverOf(flow openflow.Flow) (e Endpoint, is bool) {
	if flow.Table != tableDest || !cookie.Ours(flow.Cookie) || cookie.ClassOf(flow.Cookie) != cookie.Endpoint {
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
