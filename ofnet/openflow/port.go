package openflow

import (
	"fmt"
	"time"
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
	PortDown     uint32 = 1 << 0 // config: set down by the administrator
	PortLinkDown uint32 = 1 << 0 // state
	PortLive     uint32 = 1 << 2 // state: alive, for fast failover groups
)

// PortStatus tells of a change of a port.
type PortStatus struct {
	Reason PortReason
	Port   Port
}

// PortReason says what happened to a port.
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

// PortStats are the counters of a port. Open vSwitch reports counters that it
// does not keep as all ones.
type PortStats struct {
	No                                     uint32
	RxPackets, TxPackets, RxBytes, TxBytes uint64
	RxDropped, TxDropped                   uint64
	RxErrors, TxErrors                     uint64
	RxFrame, RxOver, RxCRC                 uint64
	Collisions                             uint64
	Duration                               time.Duration
}
