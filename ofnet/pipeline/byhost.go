package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// byHost has the flows by which clients that come in by the host reach providers that are no endpoints:
// processes of the nodes, and external machines. (Endpoints reach those like any external address.) Such a
// provider would answer the client directly, bypassing the switch, which has to translate the answer. So the
// client's address is translated to one of the host's port, in a zone of its own:
//
//	FORWARD   came in by the host, for no endpoint: ct(commit,nat(src=that address)), and
//	          back to the host, which routes it; the mark has the VRF
//	CLASSIFY  from the host, to that address: ct(nat) restores the client
//	SOURCE    ct(nat) in the zone of the VRF restores the service
//	FORWARD   back to the host
type byHost struct{ gateway [6]byte }

// beyondNode is the number of that private address. No port of the switch has this number.
const beyondNode = 0xfffc

// BeyondNode returns the source that providers which are no endpoints see instead of a client that came in by this host.
func BeyondNode(private netip.Prefix) netip.Addr { return OutsideAddress(private, beyondNode) }

// beyondZone is the connection tracker's zone for this. It is no zone of a VRF or of tiers (MaxVRF).
const beyondZone = 65534

// originBeyond is what the mark of such a connection has in place of ORIGIN.
const originBeyond = 7

func (b byHost) base(w *Wants) {
	vrf := openflow.Subfield{Field: openflow.FieldReg(regVRF.Index), Bits: regVRF.Bits}
	for _, f := range []family{ipv4(), ipv6()} {
		w.flow(at(tableSource, priorityGuard, regOrigin.is(originEntered), f.is(), answering(), origin(originBeyond)).
			do(openflow.Move{Src: openflow.FieldCTMark, Dst: vrf.Field, DstOfs: vrf.Ofs, Bits: vrf.Bits},
				openflow.CT{ZoneField: vrf, Recirculate: true, Table: tableForward, Actions: []openflow.Action{openflow.NAT{}}}).end())
	}
}

func (b byHost) outside(w *Wants, o Outside, port uint32) {
	for _, p := range o.Prefixes() {
		f, own := familyOf(p.Addr()), BeyondNode(p)
		toHost := []openflow.Action{set(openflow.EthSrc(b.gateway)), set(openflow.EthDst(o.MAC))}
		asks := func(priority uint16, leaves uint32, more ...openflow.FieldMatch) openflow.Flow {
			question := append([]openflow.FieldMatch{f.is(), openflow.CTState(openflow.CTTrk, openflow.CTTrk|openflow.CTRpl|openflow.CTInv)}, more...)
			return unreceivedFrom(originEntered, priority, question...).do(openflow.DecTTL{}).do(toHost...).do(regOut.set(leaves), b.hide(own)).end()
		}
		w.flow(
			asks(priorityHost, outBack, openflow.InPort(port)),
			asks(priorityOutside, port), // an endpoint of another tenant
			at(tableClassify, priorityService, openflow.InPort(port), f.is(), f.dst(inet.Host(own))).
				do(arrived(originEntered)...).do(openflow.CT{
				Zone: beyondZone, Recirculate: true, Table: tableSource, Actions: []openflow.Action{openflow.NAT{}},
			}).end(),
			at(tableForward, priorityExcept, openflow.InPort(port), regOut.is(0), f.is(), answering(), origin(originEntered)).
				do(toHost...).do(regOut.set(outBack)).goTo(tableOutput))
	}
}

// hide translates the source of a packet, and continues in OUTPUT.
func (byHost) hide(as netip.Addr) openflow.Action {
	return openflow.CT{Commit: true, Zone: beyondZone, Recirculate: true, Table: tableOutput, Actions: []openflow.Action{
		openflow.NAT{Kind: openflow.NATSource, MinIP: as},
		set(openflow.CTMark(originBeyond<<markOrigin, ^uint32(0))),
		openflow.Move{Src: openflow.FieldReg(regVRF.Index), SrcOfs: regVRF.Ofs, Dst: openflow.FieldCTMark, Bits: regVRF.Bits},
	}}
}
