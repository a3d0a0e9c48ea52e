package openflow

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Version is the protocol version: 1.3.
const Version = 4

const headerSize = 8

// Type is the type of a message.
type Type uint8

// Types of messages.
const (
	TypeHello            Type = 0
	TypeError            Type = 1
	TypeEchoRequest      Type = 2
	TypeEchoReply        Type = 3
	TypeExperimenter     Type = 4
	TypeFeaturesRequest  Type = 5
	TypeFeaturesReply    Type = 6
	TypeSetConfig        Type = 9
	TypePacketIn         Type = 10
	TypeFlowRemoved      Type = 11
	TypePortStatus       Type = 12
	TypePacketOut        Type = 13
	TypeFlowMod          Type = 14
	TypeGroupMod         Type = 15
	TypeMultipartRequest Type = 18
	TypeMultipartReply   Type = 19
	TypeBarrierRequest   Type = 20
	TypeBarrierReply     Type = 21
	TypeSetAsync         Type = 28
	TypeMeterMod         Type = 29
)

// Message is a message to or from a switch.
type Message interface {
	// String names the message in errors and logs.
	fmt.Stringer
	messageType() Type
	encodeBody(e *encoder)
}

// bodies maps each supported type of message to the function that reads its body to the end.
// Experimenter messages may contain messages and are therefore handled in body.
var bodies = map[Type]func(d *decoder) Message{
	TypeHello:            (*decoder).hello,
	TypeError:            func(d *decoder) Message { return d.switchError() },
	TypeEchoRequest:      func(d *decoder) Message { return EchoRequest{d.rest()} },
	TypeEchoReply:        func(d *decoder) Message { return EchoReply{d.rest()} },
	TypeFeaturesRequest:  func(*decoder) Message { return FeaturesRequest{} },
	TypeFeaturesReply:    (*decoder).features,
	TypeSetConfig:        func(d *decoder) Message { return SetConfig{Flags: d.u16(), MissSendLen: d.u16()} },
	TypePacketIn:         (*decoder).packetIn,
	TypeFlowRemoved:      (*decoder).flowRemoved,
	TypePortStatus:       (*decoder).portStatus,
	TypePacketOut:        (*decoder).packetOut,
	TypeFlowMod:          (*decoder).flowMod,
	TypeGroupMod:         (*decoder).groupMod,
	TypeMultipartRequest: (*decoder).multipartRequest,
	TypeMultipartReply:   (*decoder).multipartReply,
	TypeBarrierRequest:   func(*decoder) Message { return BarrierRequest{} },
	TypeBarrierReply:     func(*decoder) Message { return BarrierReply{} },
	TypeSetAsync:         (*decoder).setAsync,
	TypeMeterMod:         (*decoder).meterMod,
}

// Encode returns the wire form of a message.
func Encode(xid uint32, m Message) ([]byte, error) {
	e := &encoder{b: make([]byte, 0, 256)}
	e.message(xid, m)
	if e.err != nil {
		return nil, fmt.Errorf("encode %s: %w", m, e.err)
	}
	return e.b, nil
}

// message appends a message with its header.
func (e *encoder) message(xid uint32, m Message) {
	start := len(e.b)
	e.u8(Version)
	e.u8(uint8(m.messageType()))
	e.u16(0)
	e.u32(xid)
	m.encodeBody(e)
	e.length(start+2, start)
}

// Decode reads exactly one message; b need not be trusted.
func Decode(b []byte) (xid uint32, m Message, err error) {
	h, d, err := open(b)
	if err != nil {
		return h.xid, nil, err
	}
	m, err = d.body(h)
	return h.xid, m, err
}

// head is the header of a message.
type head struct {
	version uint8
	kind    Type
	length  int
	xid     uint32
}

func parseHead(b []byte) head {
	return head{b[0], Type(b[1]), int(binary.BigEndian.Uint16(b[2:])), binary.BigEndian.Uint32(b[4:])}
}

// open checks a message's header and returns a decoder for its body.
func open(b []byte) (head, *decoder, error) {
	if len(b) < headerSize {
		return head{}, nil, fmt.Errorf("message of %d bytes is shorter than its header", len(b))
	}
	h := parseHead(b)
	if h.length != len(b) {
		return h, nil, fmt.Errorf("message of %d bytes claims a length of %d", len(b), h.length)
	}
	if h.version != Version && h.kind != TypeHello {
		return h, nil, fmt.Errorf("message of type %d: version %d is not spoken", h.kind, h.version)
	}
	return h, &decoder{b: b[headerSize:]}, nil
}

// body reads the body of a message.
func (d *decoder) body(h head) (Message, error) {
	read, ok := bodies[h.kind]
	if h.kind == TypeExperimenter {
		read, ok = (*decoder).experimenter, true
	}
	if !ok {
		return nil, fmt.Errorf("message type %d is not known", h.kind)
	}
	m := read(d)
	if d.err != nil {
		return nil, fmt.Errorf("message of type %d: %w", h.kind, d.err)
	}
	return m, nil
}

// readFrame reads the bytes of one message, at most 64 KiB since the length has 16 bits.
func readFrame(r io.Reader) ([]byte, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return nil, err
	}
	length := parseHead(h[:]).length
	if length < headerSize {
		return nil, fmt.Errorf("a message claims a length of %d", length)
	}
	b := make([]byte, length)
	copy(b, h[:])
	if _, err := io.ReadFull(r, b[headerSize:]); err != nil {
		return nil, fmt.Errorf("message of type %d is cut off: %w", h[1], err)
	}
	return b, nil
}
