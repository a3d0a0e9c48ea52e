package openflow

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

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

// The switch refuses a field before the fields that it depends on.
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
