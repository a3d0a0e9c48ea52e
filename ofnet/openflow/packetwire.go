package openflow

func (PacketIn) messageType() Type    { return TypePacketIn }
func (PacketOut) messageType() Type   { return TypePacketOut }
func (FlowRemoved) messageType() Type { return TypeFlowRemoved }
func (PortStatus) messageType() Type  { return TypePortStatus }

func (p PacketIn) encodeBody(e *encoder) {
	e.u32(noBufferID)
	e.u16(p.TotalLen)
	e.u8(uint8(p.Reason))
	e.u8(p.Table)
	e.u64(p.Cookie)
	e.match(p.Match)
	e.zeros(2)
	e.raw(p.Data)
}

func (d *decoder) packetIn() Message {
	d.skip(4)
	p := PacketIn{TotalLen: d.u16(), Reason: PacketInReason(d.u8()), Table: d.u8(), Cookie: d.u64()}
	p.Match = d.matchBody().knownFields()
	d.skip(2)
	p.Data = d.rest()
	return p
}

func (p PacketOut) encodeBody(e *encoder) {
	in := p.InPort
	if in == 0 {
		in = PortController
	}
	e.u32(noBufferID)
	e.u32(in)
	at := len(e.b)
	e.zeros(8)
	start := len(e.b)
	e.actions(p.Actions)
	e.length(at, start)
	e.raw(p.Data)
}

func (d *decoder) packetOut() Message {
	d.skip(4)
	p := PacketOut{InPort: d.u32()}
	if p.InPort == PortController {
		p.InPort = 0
	}
	n := int(d.u16())
	d.skip(6)
	list := d.sub(n)
	p.Actions = list.actions(0)
	d.join(list, "packet-out")
	p.Data = d.rest()
	return p
}

func (r FlowRemoved) encodeBody(e *encoder) {
	e.u64(r.Cookie)
	e.u16(r.Priority)
	e.u8(uint8(r.Reason))
	e.u8(r.Table)
	e.duration(r.Duration)
	e.u16(r.IdleTimeout)
	e.u16(r.HardTimeout)
	e.u64(r.Packets)
	e.u64(r.Bytes)
	e.matchOf(r.Flow)
}

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

func (d *decoder) portStats() PortStats {
	s := PortStats{No: d.u32()}
	d.skip(4)
	for _, to := range [...]*uint64{
		&s.RxPackets, &s.TxPackets, &s.RxBytes, &s.TxBytes, &s.RxDropped, &s.TxDropped,
		&s.RxErrors, &s.TxErrors, &s.RxFrame, &s.RxOver, &s.RxCRC, &s.Collisions,
	} {
		*to = d.u64()
	}
	s.Duration = d.duration()
	return s
}
