package openflow

import "fmt"

// Learn adds or rewrites a flow in a table for each packet. The learned flow is removed IdleTimeout
// seconds after its last packet. It is sent in the form with a limit, which Open vSwitch supports
// since 2.9.
type Learn struct {
	IdleTimeout uint16 // seconds; 0: never
	Priority    uint16
	Cookie      uint64
	Delete      bool // when the last flow that learns them is removed, flows with this cookie in this table are removed too
	Table       uint8
	Limit       uint32 // maximum number of flows with this cookie; 0: unlimited
	Specs       []LearnSpec
}

// LearnSpec is a part of a learned flow: a field that it matches or writes.
type LearnSpec struct {
	Src   Subfield // of the packet; the zero value means Value
	Value uint32   // of 16 or 32 bits, the width of Dst
	Dst   Subfield
	Load  bool // true: the flow writes Dst; false: it matches Dst
}

// Parts of the wire form.
const (
	learnDelete    = 2
	learnLoad      = 1 << 11
	learnImmediate = 1 << 13
	learnBits      = 0x7ff
)

func (a Learn) encode(e *encoder) {
	e.nicira(nxLearn2, func() {
		e.u16(a.IdleTimeout)
		e.u16(0) // hard timeout
		e.u16(a.Priority)
		e.u64(a.Cookie)
		e.u16(bit(a.Delete, learnDelete))
		e.u8(a.Table)
		e.zeros(1 + 4) // padding, timeouts after FIN
		e.u32(a.Limit)
		e.zeros(4) // no result
		for _, s := range a.Specs {
			s.encode(e)
		}
	})
}

func (s LearnSpec) encode(e *encoder) {
	immediate := s.Src == (Subfield{})
	if !s.Dst.valid() || !immediate && (!s.Src.valid() || s.Src.Bits != s.Dst.Bits) || immediate && s.Dst.Bits != 16 && s.Dst.Bits != 32 {
		e.fail("learn: %s and %s do not fit", s.Src, s.Dst)
		return
	}
	e.u16(s.Dst.Bits | bit(s.Load, learnLoad) | bit(immediate, learnImmediate))
	switch {
	case immediate && s.Dst.Bits == 16:
		e.u16(uint16(s.Value))
	case immediate:
		e.u32(s.Value)
	default:
		e.shortHeader(s.Src.Field)
		e.u16(s.Src.Ofs)
	}
	e.shortHeader(s.Dst.Field)
	e.u16(s.Dst.Ofs)
}

func (d *decoder) learn() Action {
	a := Learn{IdleTimeout: d.u16()}
	hard := d.u16()
	a.Priority, a.Cookie = d.u16(), d.u64()
	flags := d.u16()
	a.Delete, a.Table = flags&learnDelete != 0, d.u8()
	d.skip(1)
	fin := d.u32()
	a.Limit = d.u32()
	if result := d.u32(); d.err == nil && (hard != 0 || fin != 0 || result != 0 || flags&^learnDelete != 0) {
		d.fail("learn: other timeouts, flags and results are not known")
	}
	for len(d.b) >= 2 && d.err == nil {
		header := d.u16()
		if header == 0 {
			break // padding
		}
		a.Specs = append(a.Specs, d.learnSpec(header))
	}
	d.skip(len(d.b))
	return a
}

func (d *decoder) learnSpec(header uint16) (s LearnSpec) {
	if header&^(learnBits|learnLoad|learnImmediate) != 0 {
		d.fail("learn: specification %#x is not known", header)
		return s
	}
	bits := header & learnBits
	if s.Load = header&learnLoad != 0; header&learnImmediate == 0 {
		s.Src = d.learnField(bits)
	} else {
		switch bits {
		case 16:
			s.Value = uint32(d.u16())
		case 32:
			s.Value = d.u32()
		default:
			d.fail("learn: a value of %d bits is not known", bits)
		}
	}
	s.Dst = d.learnField(bits)
	return s
}

func (d *decoder) learnField(bits uint16) Subfield {
	f, _ := d.fieldName()
	s := Subfield{Field: f, Ofs: d.u16(), Bits: bits}
	if d.err == nil && !s.valid() {
		d.fail("learn: bits %d to %d are not a part of %s", s.Ofs, int(s.Ofs)+int(bits)-1, f)
	}
	return s
}

// String prints the action as ovs-ofctl does.
func (a Learn) String() string {
	parts := []string{fmt.Sprintf("table=%d", a.Table), option(a.IdleTimeout != 0, "idle_timeout=%d", a.IdleTimeout),
		option(a.Priority != 0x8000, "priority=%d", a.Priority), option(a.Delete, "delete_learned"), option(a.Cookie != 0, "cookie=%#x", a.Cookie),
		option(a.Limit != 0, "limit=%d", a.Limit)}
	for _, s := range a.Specs {
		parts = append(parts, s.String())
	}
	return call("learn", parts...)
}

func (s LearnSpec) String() string {
	immediate := s.Src == (Subfield{})
	switch {
	case s.Load && immediate:
		return fmt.Sprintf("load:%s->%s", hex(Value{Lo: uint64(s.Value)}), s.Dst)
	case s.Load:
		return fmt.Sprintf("load:%s->%s", s.Src, s.Dst)
	case immediate:
		return fmt.Sprintf("%s=%s", s.Dst.Field, hex(Value{Lo: uint64(s.Value)}))
	case s.Src == s.Dst:
		return s.Dst.String()
	}
	return fmt.Sprintf("%s=%s", s.Dst, s.Src)
}
