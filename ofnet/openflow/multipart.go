package openflow

import (
	"fmt"
)

// multipartKind is the type of a multipart request.
type multipartKind uint16

// Kinds of multipart requests.
const (
	partDesc          multipartKind = 0
	partFlow          multipartKind = 1
	partAggregate     multipartKind = 2
	partTable         multipartKind = 3
	partPortStats     multipartKind = 4
	partGroup         multipartKind = 6
	partGroupDesc     multipartKind = 7
	partMeter         multipartKind = 9
	partMeterConfig   multipartKind = 10
	partMeterFeatures multipartKind = 11
	partPortDesc      multipartKind = 13
)

// String names the kind in errors.
func (k multipartKind) String() string {
	return name(k, []string{"description", "flow", "aggregate", "table", "port statistics", 5: "",
		6: "group statistics", 7: "group", 8: "", 9: "meter statistics", 10: "meter", 11: "meter features", 12: "", 13: "port"})
}

// multipartMore is the flag that another part of the reply follows.
const multipartMore = 1

// multipartRequest requests a list. The form of its body depends on the kind.
type multipartRequest struct {
	kind multipartKind
	body func(e *encoder)
}

func (multipartRequest) messageType() Type { return TypeMultipartRequest }

func (r multipartRequest) String() string { return fmt.Sprintf("%s request", r.kind) }

func (r multipartRequest) encodeBody(e *encoder) {
	e.u16(uint16(r.kind))
	e.zeros(6)
	if r.body != nil {
		r.body(e)
	}
}

// multipartReply is one part of an answer.
type multipartReply struct {
	kind multipartKind
	more bool
	body []byte
}

func (multipartReply) messageType() Type { return TypeMultipartReply }

func (r multipartReply) String() string { return fmt.Sprintf("%s reply", r.kind) }

func (r multipartReply) encodeBody(e *encoder) {
	e.u16(uint16(r.kind))
	e.u16(bit(r.more, multipartMore))
	e.zeros(4)
	e.raw(r.body)
}

func (d *decoder) multipartReply() Message {
	kind, flags := multipartKind(d.u16()), d.u16()
	d.skip(4)
	return multipartReply{kind: kind, more: flags&multipartMore != 0, body: d.rest()}
}

func (d *decoder) multipartRequest() Message {
	kind := multipartKind(d.u16())
	d.skip(6)
	body := d.rest()
	return multipartRequest{kind: kind, body: func(e *encoder) { e.raw(body) }}
}

// FlowFilter selects flows; the zero value selects all.
type FlowFilter struct {
	OneTable   bool // only those in Table
	Table      uint8
	Cookie     uint64 // only flows whose cookie equals Cookie in the bits of CookieMask
	CookieMask uint64
	OutPort    uint32 // only flows that output to it; 0: any
	OutGroup   uint32
	Match      Match // only flows that are at least as specific
}

func (f FlowFilter) encode(e *encoder) {
	e.u8(tableOr(f.OneTable, f.Table, TableAll))
	e.zeros(3)
	e.u32(orAny(f.OutPort))
	e.u32(orAny(f.OutGroup))
	e.zeros(4)
	e.u64(f.Cookie)
	e.u64(f.CookieMask)
	e.match(f.Match)
}

// Aggregate is the sum over flows.
type Aggregate struct {
	Packets, Bytes uint64
	Flows          uint32
}

func (d *decoder) aggregate() Aggregate {
	return Aggregate{Packets: d.u64(), Bytes: d.u64(), Flows: d.u32()}
}

// TableStats are the counters of a flow table.
type TableStats struct {
	Table            uint8
	Active           uint32 // flows
	Lookups, Matches uint64
}

func (d *decoder) tableStats() TableStats {
	s := TableStats{Table: d.u8()}
	d.skip(3)
	s.Active, s.Lookups, s.Matches = d.u32(), d.u64(), d.u64()
	return s
}

// Sizes of entries without a length of their own.
const (
	tableStatsSize = 24
	portSize       = 64
)

// Offsets of the length in entries that have one.
const (
	lengthFirst   = 0
	lengthAfterID = 4
)

// sized reads all remaining entries, whose length is at an offset within each.
func sized[T any](d *decoder, at int, read func(d *decoder) T) []T {
	return entries(d, func() *decoder { return d.element(at) }, read)
}

// fixed reads all remaining entries, which have the same size.
func fixed[T any](d *decoder, size int, read func(d *decoder) T) []T {
	return entries(d, func() *decoder { return d.sub(size) }, read)
}

func entries[T any](d *decoder, next func() *decoder, read func(d *decoder) T) []T {
	var list []T
	for d.more() {
		part := next()
		entry := read(part)
		d.join(part, fmt.Sprintf("entry %d", len(list)+1))
		list = append(list, entry)
	}
	return list
}
