package openflow

import (
	"cmp"
	"fmt"
	"net/netip"
)

// Nicira messages, with which Open vSwitch extends OpenFlow.
const (
	nxSetPacketInFormat = 16
	nxResume            = 28
	nxPacketIn2         = 30
	nxCTFlush           = 32
)

// packetInFormat2 is the format of packet-ins that carry user data and
// continuations.
const packetInFormat2 = 2

// setPacketInFormat selects the format of packet-ins on this connection.
type setPacketInFormat struct{ format uint32 }

// packetIn2 is a packet-in in Nicira's format; only tests write it.
type packetIn2 struct{ PacketIn }

// resume continues the processing of a paused packet.
type resume struct{ PacketIn }

func (setPacketInFormat) messageType() Type { return TypeExperimenter }
func (packetIn2) messageType() Type         { return TypeExperimenter }
func (resume) messageType() Type            { return TypeExperimenter }

func (s setPacketInFormat) String() string { return fmt.Sprintf("set packet-in format %d", s.format) }
func (r resume) String() string            { return "resume " + r.PacketIn.String() }

func (s setPacketInFormat) encodeBody(e *encoder) {
	e.u32(experimenterNicira)
	e.u32(nxSetPacketInFormat)
	e.u32(s.format)
}

func (p packetIn2) encodeBody(e *encoder) {
	e.u32(experimenterNicira)
	e.u32(nxPacketIn2)
	e.packet(p.PacketIn)
}

func (r resume) encodeBody(e *encoder) {
	e.u32(experimenterNicira)
	e.u32(nxResume)
	e.packet(r.PacketIn)
}

// CTFlush deletes tracked connections of a zone: those made to an address and port and translated to
// another one, or those of an address, as client or as server. Open vSwitch supports it since 3.1.
type CTFlush struct {
	Zone     uint16
	Protocol uint8          // 0: all
	By       netip.Addr     // client that made the connections; zero: any
	To       netip.AddrPort // destination before translation; zero: any; port 0: any port
	From     netip.AddrPort // source of the replies; zero: any; port 0: any port
}

func (CTFlush) messageType() Type { return TypeExperimenter }

// String names the message in errors.
func (f CTFlush) String() string {
	if f.By.IsValid() {
		return fmt.Sprintf("end connections of %s, zone %d", f.By, f.Zone)
	}
	if !f.To.IsValid() {
		return fmt.Sprintf("end connections of protocol %d that %s answers, zone %d", f.Protocol, f.From.Addr(), f.Zone)
	}
	if !f.From.IsValid() {
		return fmt.Sprintf("end connections of protocol %d to %s, zone %d", f.Protocol, f.To, f.Zone)
	}
	return fmt.Sprintf("end connections of protocol %d to %s that %s answers, zone %d", f.Protocol, f.To, f.From, f.Zone)
}

// Compare orders flushes by client, then by destination, then by source of the replies.
func (f CTFlush) Compare(other CTFlush) int {
	return cmp.Or(cmp.Compare(f.Zone, other.Zone), f.By.Compare(other.By), f.To.Compare(other.To), cmp.Compare(f.Protocol, other.Protocol), f.From.Compare(other.From))
}

// Properties of a flush, and those of a tuple in it.
const (
	flushOriginal = 0
	flushReply    = 1
	flushZone     = 2
	tupleSrc      = 0
	tupleDst      = 1
	tupleSrcPort  = 2
	tupleDstPort  = 3
)

func (f CTFlush) encodeBody(e *encoder) {
	e.u32(experimenterNicira)
	e.u32(nxCTFlush)
	e.u8(f.Protocol)
	e.zeros(7)
	address := func(kind uint16, a netip.Addr) {
		e.property(a.IsValid(), kind, func() { b := a.As16(); e.raw(b[:]) })
	}
	port := func(kind uint16, a netip.AddrPort) {
		e.property(a.Port() != 0, kind, func() { e.u16(a.Port()) })
	}
	e.property(true, flushOriginal, func() {
		e.zeros(4)
		address(tupleSrc, f.By)
		address(tupleDst, f.To.Addr())
		port(tupleDstPort, f.To)
	})
	e.property(f.From.IsValid(), flushReply, func() {
		e.zeros(4)
		address(tupleSrc, f.From.Addr())
		port(tupleSrcPort, f.From)
	})
	e.property(true, flushZone, func() { e.u16(f.Zone) })
}

// Properties of a packet in these messages.
const (
	packetData         = 0
	packetFullLen      = 1
	packetTable        = 3
	packetCookie       = 4
	packetReason       = 5
	packetMetadata     = 6
	packetUserData     = 7
	packetContinuation = 8
)

// packet appends a packet as a list of properties. Everything but data and metadata is taken from the
// continuation, which the switch trusts.
func (e *encoder) packet(p PacketIn) {
	e.property(true, packetData, func() { e.raw(p.Data) })
	e.property(p.TotalLen != len(p.Data), packetFullLen, func() { e.u32(uint32(p.TotalLen)) })
	e.property(true, packetTable, func() { e.u8(p.Table) })
	e.property(true, packetCookie, func() { e.zeros(4); e.u64(p.Cookie) })
	e.property(true, packetReason, func() { e.u8(uint8(p.Reason)) })
	e.property(len(p.Match) > 0, packetMetadata, func() { e.matchFields(Flow{Match: p.Match}) })
	e.property(len(p.UserData) > 0, packetUserData, func() { e.raw(p.UserData) })
	e.property(len(p.Continuation) > 0, packetContinuation, func() { e.zeros(4); e.raw(p.Continuation) })
}

// packet reads the properties of a packet. Unknown ones are skipped.
func (d *decoder) packet() PacketIn {
	var p PacketIn
	d.properties(func(kind uint16, body *decoder) {
		switch kind {
		case packetData:
			p.Data = body.rest()
		case packetFullLen:
			p.TotalLen = int(body.u32())
		case packetTable:
			p.Table = body.u8()
		case packetCookie:
			body.skip(4)
			p.Cookie = body.u64()
		case packetReason:
			p.Reason = PacketInReason(body.u8())
		case packetMetadata:
			p.Match = body.knownFields()
		case packetUserData:
			p.UserData = body.rest()
		case packetContinuation:
			body.skip(4)
			p.Continuation = body.rest()
		}
	})
	if p.TotalLen == 0 {
		p.TotalLen = len(p.Data)
	}
	return p
}

// niciraMessage reads the body of one of these messages.
func (d *decoder) niciraMessage(kind uint32) Message {
	switch kind {
	case nxSetPacketInFormat:
		return setPacketInFormat{d.u32()}
	case nxPacketIn2:
		return d.packet()
	case nxResume:
		return resume{d.packet()}
	}
	d.fail("nicira message %d is not known", kind)
	return nil
}
