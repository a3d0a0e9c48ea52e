package openflow

import (
	"bytes"
	"net/netip"
	"testing"
)

func TestAPackedFlowIsTheSameToASwitch(t *testing.T) {
	for _, f := range []Flow{
		{},
		{Table: 3, Priority: 0x1234, Cookie: 0xc003_0000_0000_0001, Goto: 4},
		{Table: 9, Priority: 100, IdleTimeout: 5, HardTimeout: 6, Flags: FlowSendRemoved, Meter: 7,
			Match:   Match{EthType(EthTypeIPv4), InPort(3), IPv4Dst(netip.MustParsePrefix("10.1.0.0/16")), Reg(3, 7, 0xff)},
			Actions: []Action{SetField{TunnelID(5001)}, Output{Port: 1}}},
		{Table: 1, Metadata: 5, MetadataMask: 0xff, ClearActions: true, WriteActions: []Action{OutputGroup{ID: 9}}},
	} {
		packed, err := Pack(f)
		if err != nil {
			t.Fatal(err)
		}
		if got := packed.Flow(); !got.Equal(f) || packed.Table() != f.Table || packed.Priority() != f.Priority || packed.Cookie() != f.Cookie {
			t.Errorf("packed %s, unpacked %s", f, got)
		}
		for _, command := range []FlowCommand{FlowAdd, FlowDeleteStrict} {
			plain, err := Encode(7, FlowMod{Command: command, Flow: f})
			if err != nil {
				t.Fatal(err)
			}
			short, err := Encode(7, PackedFlowMod{Command: command, Flow: packed})
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(plain, short) {
				t.Errorf("%s: on the wire\n%x, packed\n%x", f, plain, short)
			}
		}
	}
}

func TestAFlowThatCannotBeSentCannotBePacked(t *testing.T) {
	if _, err := Pack(Flow{Actions: []Action{SetField{}}}); err == nil {
		t.Error("packed")
	}
	if _, err := Pack(Flow{Match: Match{{}}}); err == nil {
		t.Error("packed")
	}
}
