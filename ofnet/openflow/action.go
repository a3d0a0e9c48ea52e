package openflow

import (
	"bytes"
	"net/netip"
	"slices"
)

// Action is an operation on a packet. Actions are values.
type Action interface {
	// String prints the action as ovs-ofctl does.
	String() string
	// encode appends the action's wire form, with its own padding.
	encode(e *encoder)
}

// Reserved ports.
const (
	PortMax        uint32 = 0xffffff00
	PortInPort     uint32 = 0xfffffff8 // the port by which the packet arrived
	PortTable      uint32 = 0xfffffff9 // submit to the tables, in packet-out only
	PortNormal     uint32 = 0xfffffffa
	PortFlood      uint32 = 0xfffffffb
	PortAll        uint32 = 0xfffffffc
	PortController uint32 = 0xfffffffd
	PortLocal      uint32 = 0xfffffffe
	PortAny        uint32 = 0xffffffff // none, or any, in requests
)

// NoBuffer requests whole packets instead of a prefix and the id of a buffer in the switch.
const NoBuffer uint16 = 0xffff

// Output sends the packet out of a port.
type Output struct {
	Port   uint32
	MaxLen uint16 // for PortController: bytes to send, NoBuffer for the whole packet
}

// ToController sends the whole packet to the controller.
func ToController() Output { return Output{Port: PortController, MaxLen: NoBuffer} }

// OutputReg sends the packet out of the port whose number the field holds.
type OutputReg struct {
	Src    Subfield
	MaxLen uint16
}

// OutputGroup submits the packet to a group.
type OutputGroup struct{ ID uint32 }

// SetField writes a field, or only the bits of it that are set in the mask. With a mask it is sent as
// a Nicira extension, since OpenFlow 1.3 has no masked set-field.
type SetField struct{ FieldMatch }

// Load writes a number into a run of bits of a field.
type Load struct {
	Field Field
	Ofs   uint16 // lowest bit
	Bits  uint16 // 1..64
	Value uint64
}

// LoadReg loads a run of bits of a register.
func LoadReg(n int, ofs, bits uint16, value uint32) Load {
	return Load{Field: FieldReg(n), Ofs: ofs, Bits: bits, Value: uint64(value)}
}

// Move copies a run of bits from field to field.
type Move struct {
	Src    Field
	SrcOfs uint16
	Dst    Field
	DstOfs uint16
	Bits   uint16
}

// MoveAll copies a whole field to the low bits of another of at least its width.
func MoveAll(src, dst Field) Move { return Move{Src: src, Dst: dst, Bits: Whole(src).Bits} }

// PushVLAN adds an empty tag; TPID 0 means 0x8100.
type PushVLAN struct{ TPID uint16 }

// PopVLAN removes the outer tag.
type PopVLAN struct{}

// SetQueue chooses the queue for later outputs.
type SetQueue struct{ ID uint32 }

// SetTTL sets the time to live of an IP packet.
type SetTTL struct{ TTL uint8 }

// DecTTL decrements the time to live. At zero the remaining actions are skipped, and the packet is
// sent to Controllers, if any.
type DecTTL struct{ Controllers []uint16 }

// Resubmit looks the packet up in a table again, and continues with the next action afterwards.
type Resubmit struct {
	Port  uint16 // input port to use for the lookup; 0: unchanged
	Table uint8
	CT    bool // match on the original direction of the tracked connection
}

// Conjunction makes the flow an alternative of clause Clause (from 1) of Clauses. A packet that
// matches at least one alternative of each clause matches the flow with ConjID(ID).
type Conjunction struct {
	ID      uint32
	Clause  uint8
	Clauses uint8
}

// CT sends the packet through the connection tracker.
type CT struct {
	Commit      bool     // store the connection
	Force       bool     // with Commit: this direction becomes the original one, even if the connection exists the other way round
	Zone        uint16   // with Commit: this direction becomes the original one, even of an existing connection
	ZoneField   Subfield // 16 bits that hold the zone
	Recirculate bool     // continue in Table with ct_state set
	Table       uint8
	ALG         uint16   // standard port of the helper: 21 for ftp; 0: none
	Actions     []Action // NAT, and set_field of ct_mark and ct_label
}

// NAT translates addresses of a connection, inside CT. Without Kind it applies the translation with
// which the connection was committed.
type NAT struct {
	Kind             NATKind
	MinIP, MaxIP     netip.Addr // MaxIP invalid: one address
	MinPort, MaxPort uint16     // 0: keep if possible; MaxPort 0: one port
	Persistent       bool
	Hash, Random     bool
}

// NATKind is the kind of translation.
type NATKind uint8

// Kinds of address translation.
const (
	NATExisting NATKind = iota
	NATSource
	NATDestination
)

// CTClear clears the state that the connection tracker has set on the packet.
type CTClear struct{}

// Controller sends the packet to the controller, with options that Output does not have.
type Controller struct {
	MaxLen       uint16
	ControllerID uint16
	Reason       PacketInReason
	UserData     []byte
	Pause        bool
	Meter        uint32 // 0: the controller meter
}

// CheckLarger writes a bit: 1 if the frame is longer than the given number of bytes.
type CheckLarger struct {
	Size uint16
	Dst  Subfield // one bit
}

// Clone applies actions to a copy of the packet.
type Clone struct{ Actions []Action }

// Multipath hashes the packet's headers to a number below Links and writes it
// to Dst.
type Multipath struct {
	Fields    HashFields
	Basis     uint16
	Algorithm MultipathAlgorithm
	Links     uint32 // 1..65536
	Arg       uint32
	Dst       Subfield
}

// HashFields are the headers that Multipath hashes.
type HashFields uint16

// Sets of headers.
const (
	HashEthSrc HashFields = iota
	HashSymmetricL4
	HashSymmetricL3L4
	HashSymmetricL3L4UDP
	HashIPv4Src
	HashIPv4Dst
	HashSymmetricL3
)

// MultipathAlgorithm maps a hash to a link.
type MultipathAlgorithm uint16

// Algorithms.
const (
	ModuloN MultipathAlgorithm = iota
	HashThreshold
	HighestRandomWeight
	IterHash
)

func equalActions(a, b []Action) bool { return slices.EqualFunc(a, b, equalAction) }

// equalAction compares the simple actions, which are most, as values. Others hold lists or have
// several equivalent forms; they are compared by their encoding.
func equalAction(a, b Action) bool {
	switch a.(type) {
	case Output, OutputGroup, SetField, Load, Move, Conjunction, SetTTL:
		return a == b
	}
	x, y := encoder{}, encoder{}
	x.actions([]Action{a})
	y.actions([]Action{b})
	return bytes.Equal(x.b, y.b)
}
