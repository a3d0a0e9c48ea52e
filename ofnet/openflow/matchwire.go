package openflow

// experimenterONF is the id of the Open Networking Foundation.
const experimenterONF = 0x4f4e4600

const matchTypeOXM = 1

// match appends an ofp_match: the fields, padded; the length excludes padding.
func (e *encoder) match(m Match) {
	canonical := m.Canonical()
	if err := canonical.check(); err != nil {
		e.fail("%w", err)
		return
	}
	start := len(e.b)
	e.u16(matchTypeOXM)
	e.u16(0)
	e.fields(canonical)
	e.length(start+2, start)
	e.pad8(start)
}

// fields appends the fields of a canonical match.
func (e *encoder) fields(canonical Match) {
	for _, fm := range canonical {
		e.field(fm)
	}
}

// fieldHeader appends the header of a field and says how many bytes of value
// (and mask) belong to it.
func (e *encoder) fieldHeader(f Field, withMask bool) {
	header, size := f.info().oxm, uint32(f.size())
	if withMask {
		size *= 2
		header |= 1 << 8
	}
	if header>>16 == classExp {
		e.u32(header | (size + 4))
		e.u32(experimenterONF)
		return
	}
	e.u32(header | size)
}

// field appends a field with its value and, unless it is all ones, its mask.
func (e *encoder) field(fm FieldMatch) {
	if !fm.Field.known() {
		e.fail("not a field (a register number or address family out of range?)")
		return
	}
	exact := fm.IsExact()
	e.fieldHeader(fm.Field, !exact)
	e.value(fm.Field, fm.Value)
	if !exact {
		e.value(fm.Field, fm.Mask)
	}
}

func (e *encoder) value(f Field, v Value) {
	b := v.bytes16()
	e.raw(b[16-f.size():])
}

// match reads an ofp_match with its padding.
func (d *decoder) match() Match {
	if t := d.u16(); t != matchTypeOXM && d.err == nil {
		d.fail("match: type %d is not known", t)
	}
	n := int(d.u16())
	if n < 4 {
		d.fail("match: length %d is too short", n)
		return nil
	}
	m := d.fieldList(n - 4)
	d.skip((8 - n%8) % 8)
	return m
}

// fieldList reads fields of n bytes in all.
func (d *decoder) fieldList(n int) Match {
	list := d.sub(n)
	var m Match
	var seen [fieldCount]bool
	for list.more() {
		fm := list.field()
		if list.err == nil && seen[fm.Field] {
			list.fail("%s occurs twice", fm.Field)
		}
		if list.err == nil {
			seen[fm.Field] = true
			m = append(m, fm)
		}
	}
	d.join(list, "match")
	return m.Canonical()
}

// fieldHeader reads the header of a field and returns how many bytes follow,
// and whether they include a mask.
func (d *decoder) fieldHeader() (f Field, n int, withMask bool) {
	h := d.u32()
	n, withMask = int(h&0xff), h&(1<<8) != 0
	if h>>16 == classExp {
		if id := d.u32(); d.err == nil && (id != experimenterONF || n < 4) {
			d.fail("field %#x of experimenter %#x is not known", h>>9, id)
		}
		n -= 4
	}
	f, ok := fieldOf[h&^0x1ff]
	if !ok && d.err == nil {
		d.fail("field %d of class %#x is not known", h>>9&0x7f, h>>16)
	}
	if want := f.size() * maskFactor(withMask); ok && n != want {
		d.fail("%s: %d bytes where %d are needed", f, n, want)
	}
	return f, n, withMask
}

func maskFactor(withMask bool) int {
	if withMask {
		return 2
	}
	return 1
}

// field reads a field with its value.
func (d *decoder) field() FieldMatch {
	f, _, withMask := d.fieldHeader()
	if d.err != nil {
		return FieldMatch{}
	}
	v, mask := valueOf(d.take(f.size())), ones(f.Bits())
	if withMask {
		mask = valueOf(d.take(f.size()))
	}
	if excess := v.And(mask); excess != excess.And(ones(f.Bits())) {
		d.fail("%s: value %s exceeds %d bits", f, hex(v), f.Bits())
	}
	return Masked(f, v, mask)
}
