package openflow

func (m GroupMod) messageType() Type { return TypeGroupMod }

func (m GroupMod) encodeBody(e *encoder) {
	e.u16(uint16(m.Command))
	e.u8(uint8(m.Group.Type))
	e.zeros(1)
	e.u32(m.Group.ID)
	for _, k := range m.Group.Buckets {
		e.bucket(k, m.Group.Type)
	}
}

// bucket appends a bucket. In a group that does not select, Open vSwitch takes
// no weight.
func (e *encoder) bucket(k Bucket, t GroupType) {
	start := len(e.b)
	e.u16(0)
	if t == GroupSelect {
		e.u16(k.Weight)
	} else {
		e.u16(0)
	}
	e.u32(orAny(k.WatchPort))
	e.u32(orAny(k.WatchGroup))
	e.zeros(4)
	e.actions(k.Actions)
	e.length(start, start)
}

// buckets reads buckets to the end.
func (d *decoder) buckets() []Bucket {
	var list []Bucket
	for d.more() {
		part := d.element(0)
		part.skip(2)
		k := Bucket{Weight: part.u16(), WatchPort: orZero(part.u32()), WatchGroup: orZero(part.u32())}
		part.skip(4)
		k.Actions = part.actions(0)
		d.join(part, "bucket")
		list = append(list, k)
	}
	return list
}

// groupMod reads the body of a group-mod.
func (d *decoder) groupMod() Message {
	m := GroupMod{Command: GroupCommand(d.u16())}
	m.Group.Type = GroupType(d.u8())
	d.skip(1)
	m.Group.ID = d.u32()
	m.Group.Buckets = d.buckets()
	return m
}

// group reads one entry of a group description, which is all there is.
func (d *decoder) group() Group {
	d.skip(2)
	g := Group{Type: GroupType(d.u8())}
	d.skip(1)
	g.ID = d.u32()
	body := d.sub(len(d.b))
	if g.Buckets = body.buckets(); body.err != nil {
		g.Buckets, g.Err = nil, body.err
	}
	return g
}

// groupStats reads one entry of a group statistics reply.
func (d *decoder) groupStats() GroupStats {
	d.skip(4)
	s := GroupStats{ID: d.u32(), References: d.u32()}
	d.skip(4)
	s.Packets, s.Bytes, s.Duration = d.u64(), d.u64(), d.duration()
	for d.more() {
		s.Buckets = append(s.Buckets, BucketStats{d.u64(), d.u64()})
	}
	return s
}
