package openflow

import (
	"fmt"
)

// Port is a port of the bridge.
type Port struct {
	No     uint32
	MAC    [6]byte
	Name   string
	Config uint32
	State  uint32

	Current, Advertised, Supported, Peer uint32
	CurrentSpeed, MaxSpeed               uint32 // kbit/s
}

// Bits of Port.Config and Port.State.
const (
	PortDown     uint32 = 1 << 0 // config: administratively down
	PortLinkDown uint32 = 1 << 0 // state
	PortLive     uint32 = 1 << 2 // state: live, for fast failover groups
)

// PortStatus reports a change of a port.
type PortStatus struct {
	Reason PortReason
	Port   Port
}

// PortReason is the kind of change of a port.
type PortReason uint8

// Reasons.
const (
	PortAdded PortReason = iota
	PortDeleted
	PortModified
)

// String names the message in logs.
func (s PortStatus) String() string {
	return fmt.Sprintf("port %s: %d (%s)", name(s.Reason, []string{"added", "deleted", "modified"}), s.Port.No, s.Port.Name)
}

func (PortStatus) messageType() Type { return TypePortStatus }

func (s PortStatus) encodeBody(e *encoder) {
	e.u8(uint8(s.Reason))
	e.zeros(7)
	e.port(s.Port)
}

func (d *decoder) portStatus() Message {
	s := PortStatus{Reason: PortReason(d.u8())}
	d.skip(7)
	s.Port = d.port()
	return s
}

const portNameSize = 16

func (e *encoder) port(p Port) {
	var text [portNameSize]byte
	copy(text[:], p.Name)
	e.u32(p.No)
	e.zeros(4)
	e.raw(p.MAC[:])
	e.zeros(2)
	e.raw(text[:])
	for _, n := range [...]uint32{p.Config, p.State, p.Current, p.Advertised, p.Supported, p.Peer, p.CurrentSpeed, p.MaxSpeed} {
		e.u32(n)
	}
}

func (d *decoder) port() Port {
	p := Port{No: d.u32()}
	d.skip(4)
	copy(p.MAC[:], d.take(6))
	d.skip(2)
	p.Name = d.text(portNameSize)
	for _, to := range [...]*uint32{&p.Config, &p.State, &p.Current, &p.Advertised, &p.Supported, &p.Peer, &p.CurrentSpeed, &p.MaxSpeed} {
		*to = d.u32()
	}
	return p
}
