package openflow

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Meter limits the rate of the packets of the flows that refer to it.
type Meter struct {
	ID    uint32
	Flags MeterFlags
	Bands []MeterBand
	Err   error // set on meters read from the switch: the part of the bands that could not be decoded
}

// MeterFlags define the meaning of the numbers of the bands.
type MeterFlags uint16

// Flags of meters.
const (
	MeterKbps MeterFlags = 1 << iota
	MeterPktps
	MeterBurst
	MeterStatistics
)

// MeterBand drops packets above a rate. Open vSwitch supports no other type of band.
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

// BandStats count the packets that a band dropped.
type BandStats struct{ Packets, Bytes uint64 }

// MeterFeatures are the limits of a switch on meters. MaxMeters 0: meters are not supported.
type MeterFeatures struct {
	MaxMeters uint32
	BandTypes uint32 // bit 1: drop
	Flags     MeterFlags
	MaxBands  uint8
	MaxColor  uint8
}

// MeterCommand is the command of a MeterMod.
type MeterCommand uint16

// Commands.
const (
	MeterAdd MeterCommand = iota
	MeterModify
	MeterDelete
)

// MeterMod changes the meter table. Open vSwitch does not accept it in a bundle: add meters before the
// bundle, delete them after it.
type MeterMod struct {
	Command MeterCommand
	Meter   Meter
}

// String names the message in errors.
func (m MeterMod) String() string {
	return fmt.Sprintf("meter %s: %s", name(m.Command, meterCommands), m.Meter)
}

var meterCommands = []string{"add", "modify", "delete"}

// Equal reports whether two meters are the same to a switch, which sets a burst where none was
// requested. A meter that could not be decoded equals no other.
func (m Meter) Equal(n Meter) bool {
	return m.Err == nil && n.Err == nil && m.ID == n.ID && m.Flags == n.Flags && slices.EqualFunc(m.Bands, n.Bands, func(a, b MeterBand) bool {
		return a.Rate == b.Rate && (a.Burst == b.Burst || m.Flags&MeterBurst == 0)
	})
}

// meterFlagNames are printed in this order.
var meterFlagNames = []struct {
	flag MeterFlags
	text string
}{{MeterKbps, "kbps"}, {MeterPktps, "pktps"}, {MeterBurst, "burst"}, {MeterStatistics, "stats"}}

// String prints the meter as ovs-ofctl dump-meters does.
func (m Meter) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "meter=%d", m.ID)
	for _, f := range meterFlagNames {
		if m.Flags&f.flag != 0 {
			b.WriteString(" " + f.text)
		}
	}
	b.WriteString(" bands=")
	for _, band := range m.Bands {
		fmt.Fprintf(&b, "\ntype=drop rate=%d", band.Rate)
		if m.Flags&MeterBurst != 0 {
			fmt.Fprintf(&b, " burst_size=%d", band.Burst)
		}
	}
	return b.String()
}

const (
	bandDrop = 1
	bandSize = 16
)

func (m MeterMod) messageType() Type { return TypeMeterMod }

func (m MeterMod) encodeBody(e *encoder) {
	e.u16(uint16(m.Command))
	e.u16(uint16(m.Meter.Flags))
	e.u32(m.Meter.ID)
	for _, band := range m.Meter.Bands {
		e.u16(bandDrop)
		e.u16(bandSize)
		e.u32(band.Rate)
		e.u32(band.Burst)
		e.zeros(4)
	}
}

// bands reads bands to the end.
func (d *decoder) bands() []MeterBand {
	var list []MeterBand
	for d.more() {
		part := d.element(2)
		if kind := part.u16(); kind != bandDrop && part.err == nil {
			part.fail("type %d is not known", kind)
		}
		part.skip(2)
		list = append(list, MeterBand{Rate: part.u32(), Burst: part.u32()})
		d.join(part, "meter band")
	}
	return list
}

// meterMod reads the body of a meter-mod.
func (d *decoder) meterMod() Message {
	m := MeterMod{Command: MeterCommand(d.u16())}
	m.Meter.Flags, m.Meter.ID = MeterFlags(d.u16()), d.u32()
	m.Meter.Bands = d.bands()
	return m
}

// meter reads one entry of a meter configuration, which must fill the decoder. Where no burst was
// requested the switch reports its own; it is omitted, so that meters read back equal those written.
func (d *decoder) meter() Meter {
	d.skip(2)
	m := Meter{Flags: MeterFlags(d.u16()), ID: d.u32()}
	body := d.sub(len(d.b))
	if m.Bands = body.bands(); body.err != nil {
		m.Bands, m.Err = nil, body.err
	}
	if m.Flags&MeterBurst == 0 {
		for i := range m.Bands {
			m.Bands[i].Burst = 0
		}
	}
	return m
}

// meterStats reads one entry of a meter statistics reply.
func (d *decoder) meterStats() MeterStats {
	s := MeterStats{ID: d.u32()}
	d.skip(8)
	s.Flows, s.Packets, s.Bytes, s.Duration = d.u32(), d.u64(), d.u64(), d.duration()
	for d.more() {
		s.Bands = append(s.Bands, BandStats{d.u64(), d.u64()})
	}
	return s
}

func (d *decoder) meterFeatures() MeterFeatures {
	return MeterFeatures{MaxMeters: d.u32(), BandTypes: d.u32(), Flags: MeterFlags(d.u32()), MaxBands: d.u8(), MaxColor: d.u8()}
}
