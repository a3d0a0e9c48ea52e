package openflow

import (
	"bytes"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// Of Nicira's packet-ins there is one form to read and none that we would send.
func TestPacketsInNicirasFormAreRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genPacketIn(t)
		b, err := Encode(0, packetIn2{want})
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := Decode(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%s", err, cmp.Diff(want, got, values))
		}
	})
}

func genMessage(t *rapid.T) Message {
	u8, u16, u32, u64 := rapid.Uint8(), rapid.Uint16(), rapid.Uint32(), rapid.Uint64()
	seconds := func() time.Duration { return time.Duration(u32.Draw(t, "nanoseconds")) }
	changes := []func() Message{
		func() Message {
			m := FlowMod{FlowCommand(rapid.Uint8Range(0, 4).Draw(t, "command")), genFlow(t), u64.Draw(t, "mask"),
				rapid.Uint32Range(0, PortAny-1).Draw(t, "port"), rapid.Uint32Range(0, GroupAny-1).Draw(t, "group")}
			if m.deletes() { // what it does is not sent
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

// values compares everything, unexported parts and addresses included.
var values = cmp.Exporter(func(reflect.Type) bool { return true })

func TestEveryMessageIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMessage(t)
		b, err := Encode(77, m)
		if err != nil {
			t.Fatal(err)
		}
		xid, got, err := Decode(b)
		if err != nil {
			t.Fatalf("%v\n% x", err, b)
		}
		if xid != 77 || !reflect.DeepEqual(got, m) {
			t.Fatalf("id %d\n%s", xid, cmp.Diff(m, got, values))
		}
		if m.String() != got.String() {
			t.Fatalf("%s\n%s", m, got)
		}
	})
}

func TestAMessageThatIsCutShortAnywhereIsAnErrorOrAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, err := Encode(1, genMessage(t))
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(0, len(b)).Draw(t, "length")
		if _, _, err := Decode(b[:n]); n < len(b) && err == nil {
			t.Fatal("a message shorter than its length is taken")
		}
		if n >= headerSize { // with a length that fits it must not crash either
			b[2], b[3] = byte(n>>8), byte(n)
			_, _, _ = Decode(b[:n])
		}
	})
}

func TestMatchesThatMeanTheSameHaveOneKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := genMatch.Draw(t, "match")
		shuffled := Match(rapid.Permutation(m).Draw(t, "shuffled"))
		if len(m) > 0 {
			shuffled = append(shuffled, Masked(FieldPktMark, Value{}, Value{}))
		}
		a, b := Flow{Match: m}, Flow{Match: shuffled}
		if a.MatchKey() != b.MatchKey() || a.String() != b.String() {
			t.Fatalf("%s\n%s", a, b)
		}
	})
	registers := Flow{Match: Match{Reg(2, 1, ^uint32(0)), Reg(3, 2, 0xff)}}
	double := Flow{Match: Match{XReg(1, 1<<32|2, 0xffffffff_000000ff)}}
	if registers.MatchKey() != double.MatchKey() {
		t.Errorf("a double register is not its halves: %s, %s", registers, double)
	}
}

func TestKeysOfDifferentFlowsDiffer(t *testing.T) {
	flows := []Flow{
		{}, {Table: 1}, {Priority: 1}, {Priority: 256}, {Match: Match{EthType(EthTypeARP)}}, {Match: Match{EthType(EthTypeIPv4)}},
		{Match: Match{Reg(0, 1, 1)}}, {Match: Match{Reg(0, 1, 3)}}, {Match: Match{Reg(1, 1, 1)}}, {Match: Match{Reg(0, 1, 1), Reg(1, 1, 1)}},
		{Match: Match{CTLabel(Value{Hi: 1}, Value{Hi: 1})}}, {Match: Match{CTLabel(Value{Lo: 1}, Value{Lo: 1})}},
	}
	seen := map[string]Flow{}
	for _, f := range flows {
		if g, ok := seen[f.MatchKey()]; ok {
			t.Errorf("%s has the key of %s", f, g)
		}
		seen[f.MatchKey()] = f
	}
}

// A field the switch is told of before those that make it possible is refused.
func TestOnTheWireFieldsFollowTheirPrerequisites(t *testing.T) {
	for f := Field(1); f < fieldCount; f++ {
		if wireRank[f] == 0 && f != wireOrder[0] && !isDouble(f) && f != FieldInPort16 {
			t.Errorf("%s has no place", f)
		}
		for _, earlier := range []Field{FieldEthType, FieldVLANVID, FieldIPProto, FieldICMPv6Type, FieldCTState} {
			if f.info().need.missing(without(earlier)) == earlier && wireRank[earlier] > wireRank[f] {
				t.Errorf("%s comes before %s", f, earlier)
			}
		}
	}
}

// without is a match of all prerequisites but one.
func without(missing Field) (m Match) {
	return slices.DeleteFunc(Match{EthType(EthTypeIPv6), VLANVID(1), IPProto(ProtoICMPv6), ICMPv6Type(NDSolicit), CTState(CTNew, CTNew)},
		func(fm FieldMatch) bool { return fm.Field == missing })
}

// Whatever a switch may send in an entry, its neighbours are read.
func TestAnEntryThatIsNotUnderstoodDoesNotSpoilOthers(t *testing.T) {
	unknownField := []byte{0, 1, 0, 12, 0x80, 0x00, 0xfe, 4, 0, 0, 0, 9, 0, 0, 0, 0}
	unknownAction := []byte{0, 4, 0, 16, 0, 0, 0, 0, 0, 99, 0, 8, 1, 2, 3, 4}
	noMatch := []byte{0, 1, 0, 4, 0, 0, 0, 0}
	known := []byte{0, 1, 0, 8, 1, 0, 0, 0}
	entry := func(cookie byte, parts ...[]byte) []byte {
		b := append(make([]byte, 48), slices.Concat(parts...)...)
		b[1], b[31] = byte(len(b)), cookie
		return b
	}
	d := &decoder{b: slices.Concat(entry(1, unknownField, known), entry(2, noMatch, unknownAction, known), entry(3, noMatch, known))}
	flows := sized(d, lengthFirst, (*decoder).flowStats)
	if d.err != nil || len(flows) != 3 {
		t.Fatalf("%d flows, %v", len(flows), d.err)
	}
	if raw := flows[0].Raw; raw == nil || !bytes.Equal(raw.Match, unknownField[4:12]) || raw.Instructions != nil || flows[0].Goto != 1 {
		t.Errorf("unknown field: %+v", flows[0])
	}
	if raw := flows[1].Raw; raw == nil || raw.Match != nil || len(raw.Instructions) != 24 || flows[1].Goto != 0 {
		t.Errorf("unknown action: %+v", flows[1])
	}
	if flows[2].Raw != nil || flows[2].Goto != 1 {
		t.Errorf("the one behind them: %+v", flows[2])
	}
	if flows[1].SameEffect(flows[2].Flow) || flows[0].MatchKey() == flows[2].MatchKey() || !flows[1].Equal(flows[1].Flow) {
		t.Error("what is not understood is compared as if it were")
	}
	b, err := Encode(1, FlowMod{Command: FlowDeleteStrict, Flow: flows[0].Flow})
	if err != nil || !bytes.Contains(b, unknownField) {
		t.Errorf("deleted as %x, %v", b, err)
	}

	buckets := &decoder{b: slices.Concat([]byte{0, 32, 1, 0, 0, 0, 0, 7, 0, 24, 0, 1}, make([]byte, 12), []byte{0, 99, 0, 8, 0, 0, 0, 0}, []byte{0, 8, 0, 0, 0, 0, 0, 8})}
	if groups := sized(buckets, lengthFirst, (*decoder).group); len(groups) != 2 || groups[0].ID != 7 || groups[0].Err == nil || groups[1].Err != nil {
		t.Errorf("groups: %+v, %v", groups, buckets.err)
	}
	bands := &decoder{b: slices.Concat([]byte{0, 24, 0, 1, 0, 0, 0, 7, 0, 77, 0, 16}, make([]byte, 12), []byte{0, 8, 0, 1, 0, 0, 0, 8})}
	if meters := sized(bands, lengthFirst, (*decoder).meter); len(meters) != 2 || meters[0].ID != 7 || meters[0].Err == nil || meters[1].Err != nil {
		t.Errorf("meters: %+v, %v", meters, bands.err)
	}
}
