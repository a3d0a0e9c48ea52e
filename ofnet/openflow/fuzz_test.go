package openflow

import (
	"strings"
	"testing"
)

// seeds are bodies of sensible messages, to start from.
func seeds(f *testing.F, from func(b []byte)) {
	for _, g := range golden {
		b, err := Encode(1, g.message)
		if err != nil {
			f.Fatal(err)
		}
		from(b)
	}
}

// FuzzMessage: whatever is read from a switch, and understood, can be printed;
// what we could send again is read as the same.
func FuzzMessage(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		xid, m, err := Decode(b)
		if err != nil {
			return
		}
		text := m.String()
		again, err := Encode(xid, m)
		if err != nil {
			return // prerequisites are the switch's business when it reports, ours when we ask
		}
		_, m, err = Decode(again)
		if err != nil {
			t.Fatalf("%s: we do not understand ourselves: %v", text, err)
		}
		if m.String() != text {
			t.Fatalf("%s became %s", text, m)
		}
	})
}

// fuzzPart checks that a decoder neither crashes nor returns more than its input.
func fuzzPart(f *testing.F, read func(d *decoder) int) {
	seeds(f, func(b []byte) { f.Add(b[headerSize:]) })
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &decoder{b: b}
		if n := read(d); n > len(b) {
			t.Fatalf("%d things out of %d bytes", n, len(b))
		}
	})
}

func FuzzMatch(f *testing.F) {
	fuzzPart(f, func(d *decoder) int { m := d.match(); _ = m.String(); return len(m) })
}

func FuzzKnownFields(f *testing.F) {
	fuzzPart(f, func(d *decoder) int { m := d.knownFields(); _ = m.String(); return len(m) })
}

// FuzzPacket reads the properties of a packet that the switch sends to us.
func FuzzPacket(f *testing.F) {
	e := &encoder{}
	e.packet(PacketIn{Match: Match{InPort(1)}, UserData: []byte{1}, Data: []byte{2}, Continuation: []byte{3}})
	f.Add(e.b)
	fuzzPart(f, func(d *decoder) int {
		p := d.packet()
		_ = p.String()
		return len(p.Match) + len(p.UserData) + len(p.Data) + len(p.Continuation)
	})
}

func FuzzActions(f *testing.F) {
	fuzzPart(f, func(d *decoder) int { list := d.actions(0); _ = actionList(list); return len(list) })
}

func FuzzInstructions(f *testing.F) {
	fuzzPart(f, func(d *decoder) int {
		var flow Flow
		d.instructions(&flow)
		_ = flow.String()
		return len(flow.Actions) + len(flow.WriteActions)
	})
}

// FuzzStatistics reads an answer as each kind of list.
func FuzzStatistics(f *testing.F) {
	fuzzPart(f, func(whole *decoder) int {
		most := 0
		count := func(read func(d *decoder) int) { most = max(most, read(&decoder{b: whole.b})) }
		count(func(d *decoder) int { return len(sized(d, lengthFirst, (*decoder).flowStats)) })
		count(func(d *decoder) int { return len(sized(d, lengthFirst, (*decoder).group)) })
		count(func(d *decoder) int { return len(sized(d, lengthFirst, (*decoder).meter)) })
		count(func(d *decoder) int { return len(sized(d, lengthAfterID, (*decoder).meterStats)) })
		count(func(d *decoder) int { return len(fixed(d, portSize, (*decoder).port)) })
		count(func(d *decoder) int { return len(fixed(d, tableStatsSize, (*decoder).tableStats)) })
		return most
	})
}

// FuzzFrame reads a stream as a connection does.
func FuzzFrame(f *testing.F) {
	seeds(f, func(b []byte) { f.Add(string(b)) })
	f.Fuzz(func(t *testing.T, stream string) {
		r := strings.NewReader(stream)
		for {
			b, err := readFrame(r)
			if err != nil {
				return
			}
			if len(b) < headerSize {
				t.Fatalf("a frame of %d bytes", len(b))
			}
		}
	})
}
