package pipeline

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline/cookie"
)

// ReceiverOf is dest read backwards: the endpoint of a routed network that a flow of the switch finds by VRF
// and address. It has no more than ConnectionsOf needs to name all that may be tracked of it.
func ReceiverOf(f openflow.Flow) (e Endpoint, is bool) {
	if f.Table != tableDest || !cookie.Ours(f.Cookie) || cookie.ClassOf(f.Cookie) != cookie.Endpoint {
		return Endpoint{}, false
	}
	e = Endpoint{Local: true, Tiers: Tracked}
	if vrf, has := f.Match.Get(openflow.FieldReg(regVRF.Index)); has && vrf == regVRF.is(uint32(vrf.Value.Lo)) {
		e.VRF = uint16(vrf.Value.Lo)
	}
	if four, has := f.Match.Get(openflow.FieldIPv4Dst); has && four.IsExact() {
		e.IPv4 = netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(four.Value.Lo))))
	}
	if six, has := f.Match.Get(openflow.FieldIPv6Dst); has && six.IsExact() {
		b := binary.BigEndian.AppendUint64(nil, six.Value.Hi)
		e.IPv6 = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(b, six.Value.Lo)))
	}
	return e, e.VRF != 0 && e.IPv4.IsValid() != e.IPv6.IsValid()
}
