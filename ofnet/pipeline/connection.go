package pipeline

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// A connection of a service is made by a bucket of a group, and the connection tracker stores its purpose: its
// label is the address of the service, its mark the protocol and port, and the client's origin if not all
// clients are endpoints (entrance.go). So a bucket shows which connections it has made, and the removed buckets
// of a switch show which connections have lost their provider. Nothing else would end them: a connection is
// translated for as long as there are packets.

// begun drops packets that begin a connection for which the connection tracker has no room: its zone, or the
// whole table, is full. Every connection that it accepts has a mark. The kernel's datapath drops the packet
// itself; the userspace datapath leaves it unchanged, so that its service would give it a provider again and
// again. Packets that begin no connection for the tracker, such as a reply to nothing, are not accepted either.
type begun struct{}

func (begun) base(w *Wants) {
	w.flow(
		at(tableBegun, priorityExact, tracked(0), openflow.CTMark(0, ^uint32(0))).drop(reasonFull),
		at(tableBegun, priorityExcept, tracked(openflow.CTInv), openflow.CTMark(0, ^uint32(0))).drop(reasonInvalid))
}

// commit assigns a new connection its provider.
func (o Service) commit(p ServicePort, provider netip.AddrPort) []openflow.Action {
	ct := openflow.CT{Commit: true, Zone: o.VRF, Recirculate: true, Table: tableBegun, Actions: []openflow.Action{
		openflow.NAT{Kind: openflow.NATDestination, MinIP: provider.Addr(), MinPort: provider.Port()},
		set(openflow.CTMark(p.number(), ^uint32(0))),
		set(p.label()),
	}}
	if p.From&^FromPods != 0 {
		ct.Actions = append(ct.Actions, openflow.Move{Src: openflow.FieldReg(regOrigin.Index), SrcOfs: regOrigin.Ofs,
			Dst: openflow.FieldCTMark, DstOfs: markOrigin, Bits: regOrigin.Bits})
	}
	return []openflow.Action{ct}
}

// choice returns the actions of a bucket: it commits, and restores the address that spreadUDP has changed.
func (o Service) choice(p ServicePort, provider netip.AddrPort) (actions []openflow.Action) {
	if p.Protocol == openflow.ProtoUDP {
		actions = append(actions, set(familyOf(p.Address).dst(inet.Host(p.Address))))
	}
	return append(actions, o.commit(p, provider)...)
}

// markOrigin is the bit of a mark at which ORIGIN begins, and markProtocol that of the protocol; the port is below.
const (
	markOrigin   = 24
	markProtocol = 16
)

// number returns the part of a connection's mark that identifies its port.
func (p ServicePort) number() uint32 { return uint32(p.Protocol)<<markProtocol | uint32(p.Port) }

// mark matches the connections to a port, label those to an address.
func (p ServicePort) mark() openflow.FieldMatch {
	return openflow.CTMark(p.number(), 1<<markOrigin-1)
}

func (p ServicePort) label() openflow.FieldMatch {
	b := p.Address.As16()
	return openflow.CTLabel(openflow.Value{Hi: binary.BigEndian.Uint64(b[:8]), Lo: binary.BigEndian.Uint64(b[8:])},
		openflow.Value{Hi: ^uint64(0), Lo: ^uint64(0)})
}

func addressOf(label openflow.Value) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], label.Hi)
	binary.BigEndian.PutUint64(b[8:], label.Lo)
	return netip.AddrFrom16(b).Unmap()
}

// ConnectionsOf returns flushes for the connections that only the end of an endpoint ends. In the zone of tiers
// these are the connections from it and to it; if it is on another node, those with endpoints of this node. In the
// zone of services they are those that an endpoint of this node has opened, and TCP connections to it of clients
// that entered by other nodes: other connections to a provider are in the switches of their clients, and are
// flushed with the provider.
//
// IPv6 echoes are left, and soon end by themselves: Open vSwitch 3.1 aborts when its userspace datapath is to end one.
func ConnectionsOf(e Endpoint) (all []openflow.CTFlush) {
	tiers := Zones(e.VRF)[1]
	for _, addr := range []netip.Addr{e.IPv4, e.IPv6} {
		if !addr.IsValid() {
			continue
		}
		protocols := []uint8{0}
		if addr.Is6() {
			protocols = []uint8{openflow.ProtoTCP, openflow.ProtoUDP, openflow.ProtoSCTP}
		}
		if e.Local { // an entry leads to what had its port of the switch (entrance.go)
			all = append(all, openflow.CTFlush{Zone: e.VRF, Protocol: openflow.ProtoTCP, From: netip.AddrPortFrom(addr, 0)})
		}
		for _, protocol := range protocols {
			if e.Local {
				all = append(all, openflow.CTFlush{Zone: e.VRF, Protocol: protocol, By: addr})
			}
			if e.Tiers != 0 {
				all = append(all, openflow.CTFlush{Zone: tiers, Protocol: protocol, By: addr},
					openflow.CTFlush{Zone: tiers, Protocol: protocol, To: netip.AddrPortFrom(addr, 0)})
			}
		}
	}
	return all
}

// Without returns the endpoint with only those of its addresses that another one does not have.
func (e Endpoint) Without(other Endpoint) Endpoint {
	if e.VRF != other.VRF {
		return e
	}
	if e.IPv4 == other.IPv4 {
		e.IPv4 = netip.Addr{}
	}
	if e.IPv6 == other.IPv6 {
		e.IPv6 = netip.Addr{}
	}
	return e
}

// Connections returns those that the buckets of a group make, if it belongs to a service.
func Connections(g openflow.Group) []openflow.CTFlush {
	var all []openflow.CTFlush
	for _, b := range g.Buckets {
		if c, ok := connectionsOf(b); ok {
			all = append(all, c)
		}
	}
	return all
}

func connectionsOf(b openflow.Bucket) (openflow.CTFlush, bool) {
	if len(b.Actions) == 0 {
		return openflow.CTFlush{}, false
	}
	ct, ok := b.Actions[len(b.Actions)-1].(openflow.CT)
	if !ok || len(ct.Actions) < 3 {
		return openflow.CTFlush{}, false
	}
	nat, isNAT := ct.Actions[0].(openflow.NAT)
	mark, isMark := ct.Actions[1].(openflow.SetField)
	label, isLabel := ct.Actions[2].(openflow.SetField)
	if !isNAT || !isMark || !isLabel {
		return openflow.CTFlush{}, false
	}
	return openflow.CTFlush{
		Zone: ct.Zone, Protocol: uint8(mark.Value.Lo >> 16),
		To:   netip.AddrPortFrom(addressOf(label.Value), uint16(mark.Value.Lo)),
		From: netip.AddrPortFrom(nat.MinIP, nat.MinPort),
	}, true
}

// Ending returns what remains of a group while its connections are being ended: the buckets that make them,
// with weight 0, so that they get no packets. While they are in the switch, they show what has to be ended.
func Ending(g openflow.Group, ends []openflow.CTFlush) openflow.Group {
	rest, ending := openflow.Group{ID: g.ID, Type: g.Type}, make(map[openflow.CTFlush]bool, len(ends))
	for _, c := range ends {
		ending[c] = true
	}
	for _, b := range g.Buckets {
		if c, ok := connectionsOf(b); ok && ending[c] {
			b.Weight = 0
			rest.Buckets = append(rest.Buckets, b)
		}
	}
	return rest
}

// Groups of services have the upper half of the numbers.
const (
	groupServices uint32 = 1 << 31
	groupRange           = openflow.GroupMax - groupServices
)

// Numbered assigns each port of a service the number of its group: a hash, so that it is the same in every run,
// or if that is taken the next free one.
func (o Service) Numbered(taken func(group uint32) bool) Service {
	o.Ports = slices.Clone(o.Ports)
	own := make(map[uint32]struct{}, len(o.Ports))
	used := func(group uint32) bool { _, has := own[group]; return has || taken(group) }
	for i, p := range o.Ports {
		h := fnv.New32a()
		h.Write([]byte(o.ID)) // never fails, as hash.Hash promises
		h.Write([]byte{0, p.Protocol, byte(p.Port >> 8), byte(p.Port)})
		if p.From&^FromTenants != FromPods || p.Machine || !p.Address.Is4() {
			h.Write(p.Address.AsSlice())
		}
		n := h.Sum32() % groupRange
		for used(groupServices + n) {
			n = (n + 1) % groupRange
		}
		o.Ports[i].Group = groupServices + n
		own[groupServices+n] = struct{}{}
	}
	return o
}
