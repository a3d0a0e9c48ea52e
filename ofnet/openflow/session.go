package openflow

import "fmt"

// Messages about the session itself.

// Hello opens a session. Versions has a bit for each supported version.
type Hello struct{ Versions uint32 }

// EchoRequest probes the peer, which replies with the same Data.
type EchoRequest struct{ Data []byte }

// EchoReply answers an EchoRequest.
type EchoReply struct{ Data []byte }

// FeaturesRequest requests the features of the switch.
type FeaturesRequest struct{}

// Features describe the switch.
type Features struct {
	DatapathID   uint64
	Buffers      uint32
	Tables       uint8
	Auxiliary    uint8
	Capabilities uint32
}

// SetConfig sets how much of a packet is sent to the controller, and the treatment of fragments. Over
// a connection to its management socket Open vSwitch sends no events before it has received this.
type SetConfig struct{ Flags, MissSendLen uint16 }

// FragmentsHavePorts makes matches on ports see those of a first fragment
// (Nicira extension). Otherwise, and in later fragments, they are zero.
const FragmentsHavePorts = 3

// BarrierRequest requests a reply once all earlier messages have been processed.
type BarrierRequest struct{}

// BarrierReply answers a BarrierRequest.
type BarrierReply struct{}

const helloVersionBitmap = 1

func (Hello) messageType() Type           { return TypeHello }
func (EchoRequest) messageType() Type     { return TypeEchoRequest }
func (EchoReply) messageType() Type       { return TypeEchoReply }
func (FeaturesRequest) messageType() Type { return TypeFeaturesRequest }
func (Features) messageType() Type        { return TypeFeaturesReply }
func (SetConfig) messageType() Type       { return TypeSetConfig }
func (BarrierRequest) messageType() Type  { return TypeBarrierRequest }
func (BarrierReply) messageType() Type    { return TypeBarrierReply }

func (h Hello) String() string         { return fmt.Sprintf("hello versions=%#x", h.Versions) }
func (EchoRequest) String() string     { return "echo request" }
func (EchoReply) String() string       { return "echo reply" }
func (FeaturesRequest) String() string { return "features request" }
func (f Features) String() string      { return fmt.Sprintf("features datapath=%016x", f.DatapathID) }
func (s SetConfig) String() string {
	return fmt.Sprintf("set config flags=%d miss_send_len=%d", s.Flags, s.MissSendLen)
}
func (BarrierRequest) String() string { return "barrier request" }
func (BarrierReply) String() string   { return "barrier reply" }

func (h Hello) encodeBody(e *encoder) {
	e.u16(helloVersionBitmap)
	e.u16(8)
	e.u32(h.Versions)
}

func (m EchoRequest) encodeBody(e *encoder) { e.raw(m.Data) }
func (m EchoReply) encodeBody(e *encoder)   { e.raw(m.Data) }
func (FeaturesRequest) encodeBody(*encoder) {}
func (BarrierRequest) encodeBody(*encoder)  {}
func (BarrierReply) encodeBody(*encoder)    {}
func (m SetConfig) encodeBody(e *encoder)   { e.u16(m.Flags); e.u16(m.MissSendLen) }
func (m Features) encodeBody(e *encoder) {
	e.u64(m.DatapathID)
	e.u32(m.Buffers)
	e.u8(m.Tables)
	e.u8(m.Auxiliary)
	e.zeros(2)
	e.u32(m.Capabilities)
	e.u32(0)
}

// hello reads the elements of a hello; unknown ones are skipped, as the specification requires.
func (d *decoder) hello() Message {
	var h Hello
	for d.more() {
		kind, n := d.u16(), int(d.u16())
		element := d.sub(n - 4)
		if kind == helloVersionBitmap {
			h.Versions = element.u32()
		}
		d.join(element, "hello element")
		d.skip(min(len(d.b), (8-n%8)%8))
	}
	return h
}

func (d *decoder) features() Message {
	f := Features{DatapathID: d.u64(), Buffers: d.u32(), Tables: d.u8(), Auxiliary: d.u8()}
	d.skip(2)
	f.Capabilities = d.u32()
	d.skip(4)
	return f
}
