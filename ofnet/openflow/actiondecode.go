package openflow

import (
	"fmt"
	"net/netip"
)

// maxNesting limits how deep actions may be nested; real flows have at most three levels.
const maxNesting = 8

// standardActions reads the body of OpenFlow's own actions.
var standardActions = map[uint16]func(d *decoder) Action{
	actOutput:   func(d *decoder) Action { return Output{Port: d.u32(), MaxLen: d.u16()} },
	actPushVLAN: func(d *decoder) Action { return PushVLAN{TPID: d.u16()} },
	actPopVLAN:  func(*decoder) Action { return PopVLAN{} },
	actSetQueue: func(d *decoder) Action { return SetQueue{ID: d.u32()} },
	actGroup:    func(d *decoder) Action { return OutputGroup{ID: d.u32()} },
	actSetTTL:   func(d *decoder) Action { return SetTTL{TTL: d.u8()} },
	actDecTTL:   func(*decoder) Action { return DecTTL{} },
	actSetField: func(d *decoder) Action { return SetField{d.field()} },
}

// niciraAction reads the body of an action of Nicira's.
func niciraAction(subtype uint16, d *decoder, depth int) (Action, error) {
	switch subtype {
	case nxResubmit:
		return Resubmit{Port: inPortIsZero(d.u16()), Table: allTables}, nil
	case nxResubmitTable:
		return Resubmit{Port: inPortIsZero(d.u16()), Table: d.u8()}, nil
	case nxResubmitTableCT:
		return Resubmit{Port: inPortIsZero(d.u16()), Table: d.u8(), CT: true}, nil
	case nxRegMove:
		return d.move(), nil
	case nxRegLoad:
		s := d.subfield()
		return Load{s.Field, s.Ofs, s.Bits, d.u64()}, nil
	case nxRegLoadMasked:
		return SetField{d.field()}, nil
	case nxMultipath:
		return d.multipath(), nil
	case nxOutputReg:
		return OutputReg{Src: d.subfield(), MaxLen: d.u16()}, nil
	case nxDecTTL:
		return DecTTL{}, nil
	case nxDecTTLIDs:
		return d.decTTL(), nil
	case nxController:
		return Controller{MaxLen: d.u16(), ControllerID: d.u16(), Reason: PacketInReason(d.u8())}, nil
	case nxController2:
		return d.controller(), nil
	case nxConjunction:
		return Conjunction{Clause: d.u8() + 1, Clauses: d.u8(), ID: d.u32()}, nil
	case nxCT:
		return d.ct(depth), nil
	case nxNAT:
		return d.nat(), nil
	case nxClone:
		d.skip(6)
		return Clone{Actions: d.actions(depth + 1)}, nil
	case nxCheckLarger:
		a := CheckLarger{Size: d.u16()}
		a.Dst = d.placed(d.u16(), 1)
		return a, nil
	case nxCTClear:
		return CTClear{}, nil
	case nxLearn2:
		return d.learn(), nil
	}
	return nil, fmt.Errorf("nicira action %d is not known", subtype)
}

// actions reads a list of actions to the end.
func (d *decoder) actions(depth int) []Action {
	if depth > maxNesting {
		d.fail("actions are nested more than %d deep", maxNesting)
		return nil
	}
	var list []Action
	for d.more() {
		part := d.element(2)
		a := part.action(depth)
		d.join(part, fmt.Sprintf("action %d", len(list)+1))
		list = append(list, a)
	}
	if d.err != nil {
		return nil
	}
	return list
}

// action reads one action, which must fill the decoder.
func (d *decoder) action(depth int) Action {
	if len(d.b)%8 != 0 && d.err == nil {
		d.fail("length %d is not a multiple of 8", len(d.b))
	}
	kind := d.u16()
	d.skip(2)
	if kind != actVendor {
		read, ok := standardActions[kind]
		if !ok {
			d.fail("type %d is not known", kind)
			return nil
		}
		return read(d)
	}
	if id := d.u32(); id != experimenterNicira && d.err == nil {
		d.fail("experimenter %#x is not known", id)
	}
	subtype := d.u16()
	if d.err != nil {
		return nil
	}
	a, err := niciraAction(subtype, d, depth)
	if err != nil {
		d.fail("%w", err)
	}
	return a
}

func inPortIsZero(port uint16) uint16 {
	if port == resubmitInPort {
		return 0
	}
	return port
}

// subfield reads a range of bits: offset and size, then the field.
func (d *decoder) subfield() Subfield {
	place := d.u16()
	return d.placed(place>>6, place&0x3f+1)
}

// placed reads the field to which a range of bits belongs.
func (d *decoder) placed(ofs, bits uint16) Subfield {
	f, withMask := d.fieldName()
	s := Subfield{Field: f, Ofs: ofs, Bits: bits}
	if d.err == nil && (withMask || !s.valid()) {
		d.fail("bits %d to %d are not a part of %s", ofs, int(ofs)+int(bits)-1, f)
	}
	return s
}

// fieldName reads the header of a field where no value follows.
func (d *decoder) fieldName() (Field, bool) {
	f, _, withMask := d.fieldHeader()
	return f, withMask
}

func (d *decoder) move() Action {
	bits, from, to := d.u16(), d.u16(), d.u16()
	src := d.placed(from, bits)
	dst := d.placed(to, bits)
	return Move{Src: src.Field, SrcOfs: from, Dst: dst.Field, DstOfs: to, Bits: bits}
}

func (d *decoder) multipath() Action {
	a := Multipath{Fields: HashFields(d.u16()), Basis: d.u16()}
	d.skip(2)
	a.Algorithm = MultipathAlgorithm(d.u16())
	a.Links = uint32(d.u16()) + 1
	a.Arg = d.u32()
	d.skip(2)
	a.Dst = d.subfield()
	return a
}

func (d *decoder) decTTL() Action {
	n := int(d.u16())
	d.skip(4)
	if n == 0 || 2*n > len(d.b) {
		d.fail("dec_ttl: %d controllers in %d bytes", n, len(d.b))
		return nil
	}
	ids := make([]uint16, n)
	for i := range ids {
		ids[i] = d.u16()
	}
	return DecTTL{Controllers: ids}
}

func (d *decoder) ct(depth int) Action {
	flags := d.u16()
	a := CT{Commit: flags&ctCommit != 0, Force: flags&ctForce != 0}
	if flags&^(ctCommit|ctForce) != 0 {
		d.fail("ct: flags %#x are not known", flags)
	}
	a.readZone(d)
	if table := d.u8(); table != ctNoRecirc {
		a.Recirculate, a.Table = true, table
	}
	d.skip(3)
	a.ALG = d.u16()
	a.Actions = d.actions(depth + 1)
	return a
}

// readZone reads the zone: a number, or the field that holds it.
func (a *CT) readZone(d *decoder) {
	if source := (&decoder{b: d.b}).u32(); source == 0 {
		d.skip(4)
		a.Zone = d.u16()
		return
	}
	f, _ := d.fieldName()
	place := d.u16()
	a.ZoneField = Subfield{Field: f, Ofs: place >> 6, Bits: place&0x3f + 1}
	if d.err == nil && (!a.ZoneField.valid() || a.ZoneField.Bits != 16) {
		d.fail("ct: the zone takes 16 bits of a field, not %d of %s", a.ZoneField.Bits, f)
	}
}

func (d *decoder) nat() Action {
	d.skip(2)
	flags, present := d.u16(), d.u16()
	a := NAT{Persistent: flags&natPersist != 0, Hash: flags&natHash != 0, Random: flags&natRandom != 0}
	switch flags & (natSource | natDest) {
	case natSource:
		a.Kind = NATSource
	case natDest:
		a.Kind = NATDestination
	case natSource | natDest:
		d.fail("nat: both source and destination")
	}
	for _, ip := range [...]struct {
		flag uint16
		size int
		to   *netip.Addr
	}{{natIPv4Min, 4, &a.MinIP}, {natIPv4Max, 4, &a.MaxIP}, {natIPv6Min, 16, &a.MinIP}, {natIPv6Max, 16, &a.MaxIP}} {
		if present&ip.flag != 0 {
			*ip.to, _ = netip.AddrFromSlice(d.take(ip.size))
		}
	}
	if present&natPortMin != 0 {
		a.MinPort = d.u16()
	}
	if present&natPortMax != 0 {
		a.MaxPort = d.u16()
	}
	return a
}

func (d *decoder) controller() Action {
	d.skip(6)
	a := Controller{MaxLen: NoBuffer, Reason: ReasonAction}
	d.properties(func(kind uint16, body *decoder) {
		switch kind {
		case propMaxLen:
			a.MaxLen = body.u16()
		case propID:
			a.ControllerID = body.u16()
		case propReason:
			a.Reason = PacketInReason(body.u8())
		case propData:
			a.UserData = body.rest()
		case propPause:
			a.Pause = true
		case propMeterID:
			a.Meter = body.u32()
		default:
			body.fail("controller: property is not known")
		}
	})
	return a
}
