package openflow

import (
	"net/netip"
	"time"

	"pgregory.net/rapid"
)

// Generators of values that may stand in a message.

func genValue(t *rapid.T, bits int) Value {
	return Value{rapid.Uint64().Draw(t, "hi"), rapid.Uint64().Draw(t, "lo")}.And(ones(bits))
}

func genField(t *rapid.T, f Field) FieldMatch {
	v := genValue(t, f.Bits())
	switch f {
	case FieldEthType:
		v = number(rapid.SampledFrom([]uint64{EthTypeIPv4, EthTypeIPv6, EthTypeARP, 0x88cc}).Draw(t, "eth_type"))
	case FieldIPProto:
		v = number(rapid.SampledFrom([]uint64{ProtoTCP, ProtoUDP, ProtoICMP, ProtoICMPv6, ProtoSCTP}).Draw(t, "ip_proto"))
	case FieldICMPv6Type:
		v = number(rapid.SampledFrom([]uint64{NDSolicit, NDAdvert, 128}).Draw(t, "icmp_type"))
	default:
		if rapid.Bool().Draw(t, "masked") {
			return Masked(f, v, genValue(t, f.Bits()))
		}
	}
	return Exact(f, v)
}

// genMatch draws fields in the order of the table, so that prerequisites come first.
var genMatch = rapid.Custom(func(t *rapid.T) Match {
	var m Match
	for f := Field(1); f < fieldCount; f++ {
		isXReg := f >= FieldXReg0 && f <= FieldXReg7 // the same bits as registers
		if !isXReg && f.info().need.missing(m) == 0 && rapid.IntRange(0, 4).Draw(t, "use") == 0 {
			m = append(m, genField(t, f))
		}
	}
	return m.Canonical()
})

func genSubfield(t *rapid.T, maxBits int) Subfield {
	f := Field(rapid.IntRange(1, int(fieldCount)-1).Draw(t, "field"))
	bits := rapid.IntRange(1, min(f.movable(), maxBits)).Draw(t, "bits")
	return Subfield{f, uint16(rapid.IntRange(0, f.movable()-bits).Draw(t, "ofs")), uint16(bits)}
}

func genAddr(t *rapid.T, six bool) netip.Addr {
	if six {
		return netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "ipv6")))
	}
	return netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "ipv4")))
}

func genNAT(t *rapid.T) Action {
	a := NAT{Kind: NATKind(rapid.IntRange(0, 2).Draw(t, "kind"))}
	if a.Kind == NATExisting {
		return a
	}
	six := rapid.Bool().Draw(t, "six")
	if rapid.Bool().Draw(t, "address") {
		a.MinIP = genAddr(t, six)
		if rapid.Bool().Draw(t, "range") {
			a.MaxIP = genAddr(t, six)
		}
	}
	a.MinPort, a.MaxPort = rapid.Uint16().Draw(t, "min"), rapid.Uint16().Draw(t, "max")
	a.Persistent, a.Hash, a.Random = rapid.Bool().Draw(t, "p"), rapid.Bool().Draw(t, "h"), rapid.Bool().Draw(t, "r")
	return a
}

func genAction(t *rapid.T, depth int) Action {
	u16, u32 := rapid.Uint16(), rapid.Uint32()
	leaves := []func() Action{
		func() Action { return Output{u32.Draw(t, "port"), u16.Draw(t, "len")} },
		func() Action { return OutputReg{genSubfield(t, 32), u16.Draw(t, "len")} },
		func() Action { return OutputGroup{u32.Draw(t, "group")} },
		func() Action { return SetField{genField(t, Field(rapid.IntRange(1, int(fieldCount)-1).Draw(t, "f")))} },
		func() Action {
			s := genSubfield(t, 64)
			return Load{s.Field, s.Ofs, s.Bits, rapid.Uint64().Draw(t, "v") & ones(int(s.Bits)).Lo}
		},
		func() Action {
			a, b := genSubfield(t, 128), genSubfield(t, 128)
			n := min(a.Bits, b.Bits)
			return Move{a.Field, a.Ofs, b.Field, b.Ofs, n}
		},
		func() Action { return PushVLAN{EthTypeVLAN} },
		func() Action { return PopVLAN{} },
		func() Action { return SetQueue{u32.Draw(t, "queue")} },
		func() Action { return SetTTL{rapid.Uint8().Draw(t, "ttl")} },
		func() Action { return DecTTL{} },
		func() Action { return DecTTL{rapid.SliceOfN(u16, 1, 5).Draw(t, "ids")} },
		func() Action {
			return Resubmit{u16.Filter(func(p uint16) bool { return p != resubmitInPort }).Draw(t, "port"),
				rapid.Uint8().Draw(t, "table"), rapid.Bool().Draw(t, "ct")}
		},
		func() Action {
			n := rapid.Uint8Range(1, 64).Draw(t, "n")
			return Conjunction{u32.Draw(t, "id"), rapid.Uint8Range(1, n).Draw(t, "k"), n}
		},
		func() Action { return CTClear{} },
		func() Action { return CheckLarger{u16.Draw(t, "size"), genSubfield(t, 1)} },
		func() Action { return genNAT(t) },
		func() Action {
			return Controller{u16.Draw(t, "len"), u16.Draw(t, "id"), PacketInReason(rapid.Uint8Range(0, 2).Draw(t, "reason")),
				append([]byte(nil), rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "data")...), rapid.Bool().Draw(t, "pause"), u32.Draw(t, "meter")}
		},
		func() Action {
			return Multipath{HashFields(rapid.Uint16Range(0, 6).Draw(t, "fields")), u16.Draw(t, "basis"),
				MultipathAlgorithm(rapid.Uint16Range(0, 3).Draw(t, "alg")), rapid.Uint32Range(1, 1<<16).Draw(t, "links"),
				u32.Draw(t, "arg"), genSubfield(t, 64)}
		},
	}
	if depth < 3 {
		leaves = append(leaves,
			func() Action { return Clone{genActions(t, depth+1)} },
			func() Action {
				a := CT{Commit: rapid.Bool().Draw(t, "commit"), Force: rapid.Bool().Draw(t, "force"),
					Zone: u16.Draw(t, "zone"), ALG: u16.Draw(t, "alg"), Actions: genActions(t, depth+1)}
				if rapid.Bool().Draw(t, "field") {
					a.Zone, a.ZoneField = 0, Subfield{FieldReg5, uint16(rapid.IntRange(0, 16).Draw(t, "ofs")), 16}
				}
				if a.Recirculate = rapid.Bool().Draw(t, "recirculate"); a.Recirculate {
					a.Table = rapid.Uint8Range(0, 254).Draw(t, "table")
				}
				return a
			})
	}
	return rapid.SampledFrom(leaves).Draw(t, "action")()
}

func genActions(t *rapid.T, depth int) []Action {
	var list []Action
	for range rapid.IntRange(0, 4).Draw(t, "actions") {
		list = append(list, genAction(t, depth))
	}
	return list
}

func genFlow(t *rapid.T) Flow {
	u16 := rapid.Uint16()
	f := Flow{
		Table: rapid.Uint8().Draw(t, "table"), Priority: u16.Draw(t, "priority"), Cookie: rapid.Uint64().Draw(t, "cookie"),
		IdleTimeout: u16.Draw(t, "idle"), HardTimeout: u16.Draw(t, "hard"), Flags: FlowFlags(rapid.Uint16Range(0, 31).Draw(t, "flags")),
		Match: genMatch.Draw(t, "match"), Meter: rapid.Uint32().Draw(t, "meter"), Actions: genActions(t, 0),
		ClearActions: rapid.Bool().Draw(t, "clear"), WriteActions: genActions(t, 2), Goto: rapid.Uint8().Draw(t, "goto"),
	}
	f.MetadataMask = rapid.Uint64().Draw(t, "mask")
	f.Metadata = rapid.Uint64().Draw(t, "metadata") & f.MetadataMask
	return f
}

func genGroup(t *rapid.T) Group {
	g := Group{ID: rapid.Uint32().Draw(t, "id"), Type: GroupType(rapid.Uint8Range(0, 3).Draw(t, "type"))}
	for range rapid.IntRange(0, 3).Draw(t, "buckets") {
		k := Bucket{Actions: genActions(t, 1), WatchPort: rapid.Uint32Range(0, PortAny-1).Draw(t, "port")}
		if g.Type == GroupSelect {
			k.Weight = rapid.Uint16().Draw(t, "weight")
		}
		g.Buckets = append(g.Buckets, k)
	}
	return g
}

func genMeter(t *rapid.T) Meter {
	m := Meter{ID: rapid.Uint32().Draw(t, "id"), Flags: MeterFlags(rapid.Uint16Range(0, 15).Draw(t, "flags"))}
	for range rapid.IntRange(0, 3).Draw(t, "bands") {
		m.Bands = append(m.Bands, MeterBand{rapid.Uint32().Draw(t, "rate"), rapid.Uint32().Draw(t, "burst")})
	}
	return m
}

func genData(t *rapid.T) []byte {
	return append([]byte(nil), rapid.SliceOfN(rapid.Byte(), 0, 64).Draw(t, "data")...)
}

// genMessage draws any message that we send or understand.
func genPacketIn(t *rapid.T) PacketIn {
	return PacketIn{
		Reason: PacketInReason(rapid.Uint8().Draw(t, "reason")), Table: rapid.Uint8().Draw(t, "table"), Cookie: rapid.Uint64().Draw(t, "cookie"),
		TotalLen: int(rapid.Uint32Min(1).Draw(t, "len")), Match: genMatch.Draw(t, "match"),
		UserData: genData(t), Data: genData(t), Continuation: genData(t),
	}
}

func genMessage(t *rapid.T) Message {
	u8, u16, u32, u64 := rapid.Uint8(), rapid.Uint16(), rapid.Uint32(), rapid.Uint64()
	seconds := func() time.Duration { return time.Duration(u32.Draw(t, "nanoseconds")) }
	changes := []func() Message{
		func() Message {
			m := FlowMod{FlowCommand(rapid.Uint8Range(0, 4).Draw(t, "command")), genFlow(t), u64.Draw(t, "mask"),
				rapid.Uint32Range(0, PortAny-1).Draw(t, "port"), rapid.Uint32Range(0, GroupAny-1).Draw(t, "group")}
			if m.deletes() { // its actions are not sent
				m.Flow = Flow{Table: m.Flow.Table, Priority: m.Flow.Priority, Cookie: m.Flow.Cookie, Match: m.Flow.Match}
			}
			return m
		},
		func() Message { return GroupMod{GroupCommand(rapid.Uint16Range(0, 2).Draw(t, "command")), genGroup(t)} },
		func() Message { return MeterMod{MeterCommand(rapid.Uint16Range(0, 2).Draw(t, "command")), genMeter(t)} },
		func() Message {
			return PacketOut{rapid.Uint32Range(0, PortMax).Draw(t, "in"), genActions(t, 0), genData(t)}
		},
	}
	others := []func() Message{
		func() Message { return Hello{u32.Draw(t, "versions")} },
		func() Message { return EchoRequest{genData(t)} },
		func() Message { return EchoReply{genData(t)} },
		func() Message { return FeaturesRequest{} },
		func() Message {
			return Features{u64.Draw(t, "id"), u32.Draw(t, "n"), u8.Draw(t, "tables"), u8.Draw(t, "aux"), u32.Draw(t, "caps")}
		},
		func() Message { return SetConfig{u16.Draw(t, "flags"), u16.Draw(t, "len")} },
		func() Message { return BarrierRequest{} },
		func() Message { return BarrierReply{} },
		func() Message {
			p := genPacketIn(t)
			p.TotalLen &= 0xffff
			p.UserData, p.Continuation = nil, nil
			return p
		},
		func() Message { return resume{genPacketIn(t)} },
		func() Message { return SetAsync{u32.Draw(t, "packets"), u32.Draw(t, "ports"), u32.Draw(t, "flows")} },
		func() Message { return setPacketInFormat{u32.Draw(t, "format")} },
		func() Message {
			f := FlowStats{Packets: u64.Draw(t, "packets"), Bytes: u64.Draw(t, "bytes"), Duration: seconds()}
			f.Table, f.Priority, f.Cookie, f.Match = u8.Draw(t, "table"), u16.Draw(t, "p"), u64.Draw(t, "c"), genMatch.Draw(t, "m")
			return FlowRemoved{f, FlowRemovedReason(u8.Draw(t, "reason"))}
		},
		func() Message {
			return PortStatus{PortReason(u8.Draw(t, "reason")), Port{No: u32.Draw(t, "no"), Name: rapid.StringMatching(`[a-z0-9]{0,15}`).Draw(t, "name"),
				MAC: [6]byte{2, 3}, Config: u32.Draw(t, "config"), MaxSpeed: u32.Draw(t, "speed")}}
		},
		func() Message {
			return &Error{Type: u16.Draw(t, "type") &^ 0x8000, Code: u16.Draw(t, "code"), Data: genData(t)}
		},
		func() Message {
			return multipartReply{multipartKind(u16.Draw(t, "kind")), rapid.Bool().Draw(t, "more"), genData(t)}
		},
		func() Message {
			return bundleControl{u32.Draw(t, "id"), bundleOp(rapid.Uint16Range(0, 7).Draw(t, "op"))}
		},
		func() Message {
			return bundleAdd{u32.Draw(t, "id"), u32.Draw(t, "xid"), rapid.SampledFrom(changes).Draw(t, "inner")()}
		},
	}
	return rapid.SampledFrom(append(others, changes...)).Draw(t, "message")()
}
