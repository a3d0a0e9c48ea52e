package openflow

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

// meter reads one entry of a meter configuration, which is all there is. Where
// no burst was asked for the switch reports one of its own making; it is left
// out, so that what was written is what is read.
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
