package openflow

import "net/netip"

// Types of actions.
const (
	actOutput   = 0
	actPushVLAN = 17
	actPopVLAN  = 18
	actSetQueue = 21
	actGroup    = 22
	actSetTTL   = 23
	actDecTTL   = 24
	actSetField = 25
	actVendor   = 0xffff
)

// experimenterNicira is the id under which Open vSwitch extends OpenFlow.
const experimenterNicira = 0x2320

// Subtypes of Nicira's actions.
const (
	nxResubmit        = 1
	nxRegMove         = 6
	nxRegLoad         = 7
	nxMultipath       = 10
	nxResubmitTable   = 14
	nxOutputReg       = 15
	nxDecTTL          = 18
	nxController      = 20
	nxDecTTLIDs       = 21
	nxRegLoadMasked   = 33
	nxConjunction     = 34
	nxCT              = 35
	nxNAT             = 36
	nxController2     = 37
	nxClone           = 42
	nxCTClear         = 43
	nxResubmitTableCT = 44
	nxLearn2          = 45
	nxCheckLarger     = 49
)

// Flags and marks inside of actions.
const (
	resubmitInPort = 0xfff8 // Nicira's ports have 16 bits
	allTables      = 0xff

	ctCommit    = 1
	ctForce     = 2
	ctNoRecirc  = 0xff
	natSource   = 1
	natDest     = 2
	natPersist  = 4
	natHash     = 8
	natRandom   = 16
	natIPv4Min  = 1
	natIPv4Max  = 2
	natIPv6Min  = 4
	natIPv6Max  = 8
	natPortMin  = 16
	natPortMax  = 32
	noMeter     = 0xffffffff
	propMaxLen  = 0
	propID      = 1
	propReason  = 2
	propData    = 3
	propPause   = 4
	propMeterID = 5
)

// actions appends a list of actions.
func (e *encoder) actions(list []Action) {
	for _, a := range list {
		if a == nil {
			e.fail("an action is nil")
			return
		}
		a.encode(e)
	}
}

// action appends an action: header, body, and padding to 8 bytes, which is included in its length.
func (e *encoder) action(kind uint16, body func()) {
	start := len(e.b)
	e.u16(kind)
	e.u16(0)
	body()
	e.pad8(start)
	e.length(start+2, start)
}

// nicira appends an action of Nicira's.
func (e *encoder) nicira(subtype uint16, body func()) {
	e.action(actVendor, func() {
		e.u32(experimenterNicira)
		e.u16(subtype)
		body()
	})
}

// nothing is the body of actions that have only padding after their header.
func nothing() {}

// subfield appends a range of bits: offset and size in 16 bits, then the field.
func (e *encoder) subfield(s Subfield) {
	if !s.valid() || s.Bits > 64 || s.Ofs > 1023 {
		e.fail("bits %d to %d are not a part of %s", s.Ofs, int(s.Ofs)+int(s.Bits)-1, s.Field)
		return
	}
	e.u16(s.Ofs<<6 | (s.Bits - 1))
	e.shortHeader(s.Field)
}

// shortHeader appends the 4 byte header of a field in a Nicira action: Nicira's own header where the
// field has one.
func (e *encoder) shortHeader(f Field) {
	header := f.info().alias
	if header == 0 {
		header = f.info().oxm
	}
	e.u32(header | uint32(f.size()))
}

func (a Output) encode(e *encoder) {
	e.action(actOutput, func() {
		e.u32(a.Port)
		e.u16(a.MaxLen)
	})
}

func (a OutputReg) encode(e *encoder) {
	e.nicira(nxOutputReg, func() {
		e.subfield(a.Src)
		e.u16(a.MaxLen)
	})
}

func (a OutputGroup) encode(e *encoder) { e.action(actGroup, func() { e.u32(a.ID) }) }

func (a SetField) encode(e *encoder) {
	if a.IsExact() {
		e.action(actSetField, func() { e.field(a.FieldMatch) })
		return
	}
	e.nicira(nxRegLoadMasked, func() { e.field(a.FieldMatch) })
}

func (a Load) encode(e *encoder) {
	if a.Bits < 64 && a.Value>>a.Bits != 0 {
		e.fail("load: %#x does not fit into %d bits of %s", a.Value, a.Bits, a.Field)
		return
	}
	e.nicira(nxRegLoad, func() {
		e.subfield(Subfield{a.Field, a.Ofs, a.Bits})
		e.u64(a.Value)
	})
}

func (a Move) encode(e *encoder) {
	for _, s := range [...]Subfield{{a.Src, a.SrcOfs, a.Bits}, {a.Dst, a.DstOfs, a.Bits}} {
		if !s.valid() {
			e.fail("move: bits %d to %d are not a part of %s", s.Ofs, int(s.Ofs)+int(s.Bits)-1, s.Field)
			return
		}
	}
	e.nicira(nxRegMove, func() {
		e.u16(a.Bits)
		e.u16(a.SrcOfs)
		e.u16(a.DstOfs)
		e.shortHeader(a.Src)
		e.shortHeader(a.Dst)
	})
}

func (a PushVLAN) encode(e *encoder) {
	tpid := a.TPID
	if tpid == 0 {
		tpid = EthTypeVLAN
	}
	e.action(actPushVLAN, func() { e.u16(tpid) })
}

func (PopVLAN) encode(e *encoder)    { e.action(actPopVLAN, func() { e.zeros(4) }) }
func (a SetQueue) encode(e *encoder) { e.action(actSetQueue, func() { e.u32(a.ID) }) }
func (a SetTTL) encode(e *encoder)   { e.action(actSetTTL, func() { e.u8(a.TTL) }) }
func (CTClear) encode(e *encoder)    { e.nicira(nxCTClear, nothing) }

func (a DecTTL) encode(e *encoder) {
	if len(a.Controllers) == 0 {
		e.action(actDecTTL, func() { e.zeros(4) })
		return
	}
	e.nicira(nxDecTTLIDs, func() {
		e.u16(uint16(len(a.Controllers)))
		e.zeros(4)
		for _, id := range a.Controllers {
			e.u16(id)
		}
	})
}

func (a Resubmit) encode(e *encoder) {
	subtype, port := uint16(nxResubmitTable), a.Port
	if a.CT {
		subtype = nxResubmitTableCT
	}
	if port == 0 {
		port = resubmitInPort
	}
	e.nicira(subtype, func() {
		e.u16(port)
		e.u8(a.Table)
		e.zeros(3)
	})
}

func (a Conjunction) encode(e *encoder) {
	if a.Clause < 1 || a.Clause > a.Clauses {
		e.fail("conjunction %d: there is no clause %d of %d", a.ID, a.Clause, a.Clauses)
		return
	}
	e.nicira(nxConjunction, func() {
		e.u8(a.Clause - 1)
		e.u8(a.Clauses)
		e.u32(a.ID)
	})
}

func (a CT) encode(e *encoder) {
	e.nicira(nxCT, func() {
		e.u16(bit(a.Commit, ctCommit) | bit(a.Force, ctForce))
		e.zone(a)
		e.u8(tableOr(a.Recirculate, a.Table, ctNoRecirc))
		e.zeros(3)
		e.u16(a.ALG)
		e.actions(a.Actions)
	})
}

// zone appends the zone of a ct action: a number, or the field that holds it.
func (e *encoder) zone(a CT) {
	if a.ZoneField == (Subfield{}) {
		e.u32(0)
		e.u16(a.Zone)
		return
	}
	if !a.ZoneField.valid() || a.ZoneField.Bits != 16 {
		e.fail("ct: the zone takes 16 bits of a field, not %d of %s", a.ZoneField.Bits, a.ZoneField.Field)
		return
	}
	e.shortHeader(a.ZoneField.Field)
	e.u16(a.ZoneField.Ofs<<6 | 15)
}

func tableOr(given bool, table, otherwise uint8) uint8 {
	if given {
		return table
	}
	return otherwise
}

// bit returns flag if set is true, else 0.
func bit(set bool, flag uint16) uint16 {
	if set {
		return flag
	}
	return 0
}

func (a NAT) encode(e *encoder) {
	if a.Kind == NATExisting && a != (NAT{}) || a.MinIP.Is4() && a.MaxIP.Is6() || a.MinIP.Is6() && a.MaxIP.Is4() {
		e.fail("nat: %s is contradictory", a)
		return
	}
	e.nicira(nxNAT, func() {
		e.zeros(2)
		e.u16(bit(a.Kind == NATSource, natSource) | bit(a.Kind == NATDestination, natDest) |
			bit(a.Persistent, natPersist) | bit(a.Hash, natHash) | bit(a.Random, natRandom))
		e.u16(bit(a.MinIP.Is4(), natIPv4Min) | bit(a.MaxIP.Is4(), natIPv4Max) |
			bit(a.MinIP.Is6(), natIPv6Min) | bit(a.MaxIP.Is6(), natIPv6Max) |
			bit(a.MinPort != 0, natPortMin) | bit(a.MaxPort != 0, natPortMax))
		for _, ip := range [...]netip.Addr{a.MinIP, a.MaxIP} {
			e.raw(ip.AsSlice())
		}
		for _, port := range [...]uint16{a.MinPort, a.MaxPort} {
			if port != 0 {
				e.u16(port)
			}
		}
	})
}

func (a Controller) encode(e *encoder) {
	if len(a.UserData) == 0 && !a.Pause && a.Meter == 0 {
		e.nicira(nxController, func() {
			e.u16(a.MaxLen)
			e.u16(a.ControllerID)
			e.u8(uint8(a.Reason))
			e.u8(0)
		})
		return
	}
	e.nicira(nxController2, func() {
		e.zeros(6)
		e.property(a.MaxLen != NoBuffer, propMaxLen, func() { e.u16(a.MaxLen) })
		e.property(a.ControllerID != 0, propID, func() { e.u16(a.ControllerID) })
		e.property(a.Reason != ReasonAction, propReason, func() { e.u8(uint8(a.Reason)) })
		e.property(len(a.UserData) > 0, propData, func() { e.raw(a.UserData) })
		e.property(a.Pause, propPause, nothing)
		e.property(a.Meter != 0, propMeterID, func() { e.u32(a.Meter) })
	})
}

// property appends an optional property; its length excludes padding.
func (e *encoder) property(present bool, kind uint16, body func()) {
	if !present {
		return
	}
	start := len(e.b)
	e.u16(kind)
	e.u16(0)
	body()
	e.length(start+2, start)
	e.pad8(start)
}

func (a CheckLarger) encode(e *encoder) {
	if !a.Dst.valid() || a.Dst.Bits != 1 {
		e.fail("check_pkt_larger: the answer takes one bit of a field, not %d of %s", a.Dst.Bits, a.Dst.Field)
		return
	}
	e.nicira(nxCheckLarger, func() {
		e.u16(a.Size)
		e.u16(a.Dst.Ofs)
		e.shortHeader(a.Dst.Field)
	})
}

func (a Clone) encode(e *encoder) {
	e.nicira(nxClone, func() {
		e.zeros(6)
		e.actions(a.Actions)
	})
}

func (a Multipath) encode(e *encoder) {
	if a.Links < 1 || a.Links > 1<<16 {
		e.fail("multipath: %d links are not in 1..65536", a.Links)
		return
	}
	e.nicira(nxMultipath, func() {
		e.u16(uint16(a.Fields))
		e.u16(a.Basis)
		e.zeros(2)
		e.u16(uint16(a.Algorithm))
		e.u16(uint16(a.Links - 1))
		e.u32(a.Arg)
		e.zeros(2)
		e.subfield(a.Dst)
	})
}
