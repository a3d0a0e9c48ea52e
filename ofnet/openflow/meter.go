package openflow

import (
	"fmt"
	"time"
)

// Meter limits the rate of the packets of the flows that name it.
type Meter struct {
	ID    uint32
	Flags MeterFlags
	Bands []MeterBand
	Err   error // of a meter in the switch: what of its bands is not understood
}

// MeterFlags say what the numbers of the bands mean.
type MeterFlags uint16

// Flags of meters.
const (
	MeterKbps MeterFlags = 1 << iota
	MeterPktps
	MeterBurst
	MeterStatistics
)

// MeterBand drops what exceeds a rate. Other types of bands are not known to
// Open vSwitch.
type MeterBand struct{ Rate, Burst uint32 }

// Reserved meter ids.
const (
	MeterMax uint32 = 0xffff0000
	MeterAll uint32 = 0xffffffff
)

// MeterStats are the counters of a meter.
type MeterStats struct {
	ID             uint32
	Flows          uint32
	Packets, Bytes uint64
	Duration       time.Duration
	Bands          []BandStats
}

// BandStats are the counters of a band: what it dropped.
type BandStats struct{ Packets, Bytes uint64 }

// MeterFeatures say what meters a switch can do. MaxMeters 0: none.
type MeterFeatures struct {
	MaxMeters uint32
	BandTypes uint32 // bit 1: drop
	Flags     MeterFlags
	MaxBands  uint8
	MaxColor  uint8
}

// MeterCommand says what a MeterMod does.
type MeterCommand uint16

// Commands.
const (
	MeterAdd MeterCommand = iota
	MeterModify
	MeterDelete
)

// MeterMod changes the meter table. Open vSwitch refuses it inside a bundle:
// add meters before, delete them after.
type MeterMod struct {
	Command MeterCommand
	Meter   Meter
}

// String names the message in errors.
func (m MeterMod) String() string {
	return fmt.Sprintf("meter %s: %s", name(m.Command, meterCommands), m.Meter)
}

var meterCommands = []string{"add", "modify", "delete"}
