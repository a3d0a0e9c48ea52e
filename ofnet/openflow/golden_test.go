package openflow

import (
	"fmt"
	"strings"
	"testing"
)

// The bytes of these messages were checked against the OpenFlow 1.3.5
// specification and nicira-ext.h by hand.
var golden = []struct {
	message Message
	bytes   string
}{
	{Hello{Versions: 1 << 4}, `04 00 0010 00000001  0001 0008 00000010`},
	{SetConfig{MissSendLen: NoBuffer}, `04 09 000c 00000001  0000 ffff`},
	{BarrierRequest{}, `04 14 0008 00000001`},
	{
		FlowMod{Flow: Flow{
			Table: 3, Priority: 100, Cookie: 0xc000000000000001,
			Match:   Match{InPort(5), EthType(EthTypeIPv4), Reg(0, 1, 0xff)},
			Actions: []Action{SetField{Reg(1, 7, ^uint32(0))}, Output{Port: PortInPort}},
			Goto:    4,
		}},
		`04 0e 0080 00000001
		 c000000000000001 0000000000000000 03 00 0000 0000 0064
		 ffffffff ffffffff ffffffff 0000 0000
		 0001 001e  80000004 00000005  80000a02 0800  00010108 00000001 000000ff  0000
		 0004 0028 00000000
		   0019 0010 00010204 00000007 00000000
		   0000 0010 fffffff8 0000 000000000000
		 0001 0008 04 000000`,
	},
	{
		FlowMod{Command: FlowDeleteStrict, Flow: Flow{Match: Match{EthType(EthTypeIPv4), IPProto(ProtoTCP), TCPFlags(TCPSyn, TCPSyn|TCPAck)}}},
		`04 0e 0050 00000001
		 0000000000000000 0000000000000000 00 04 0000 0000 0000
		 ffffffff ffffffff ffffffff 0000 0000
		 0001 001b  80000a02 0800  80001401 06  ffff5508 4f4e4600 0002 0012  0000000000`,
	},
	{
		FlowMod{Flow: Flow{Actions: []Action{
			CT{Commit: true, ZoneField: Subfield{FieldReg5, 0, 16}, Recirculate: true, Table: 9, Actions: []Action{NAT{Kind: NATSource}}},
			Load{FieldReg0, 16, 16, 5},
			Resubmit{Table: 2},
			Conjunction{ID: 7, Clause: 1, Clauses: 2},
		}}},
		`04 0e 00a0 00000001
		 0000000000000000 0000000000000000 00 00 0000 0000 0000
		 ffffffff ffffffff ffffffff 0000 0000
		 0001 0004 00000000
		 0004 0068 00000000
		   ffff 0028 00002320 0023 0001 00010a04 000f 09 000000 0000
		     ffff 0010 00002320 0024 0000 0001 0000
		   ffff 0018 00002320 0007 040f 00010004 0000000000000005
		   ffff 0010 00002320 000e fff8 02 000000
		   ffff 0010 00002320 0022 00 02 00000007`,
	},
	{
		GroupMod{Group: Group{ID: 9, Type: GroupSelect, Buckets: []Bucket{{Weight: 10, Actions: []Action{Output{Port: 1}}}}}},
		`04 0f 0030 00000001  0000 01 00 00000009
		 0020 000a ffffffff ffffffff 00000000  0000 0010 00000001 0000 000000000000`,
	},
	{
		MeterMod{Meter: Meter{ID: 1, Flags: MeterKbps | MeterBurst, Bands: []MeterBand{{1000, 50}}}},
		`04 1d 0020 00000001  0000 0005 00000001  0001 0010 000003e8 00000032 00000000`,
	},
	{
		bundleControl{5, bundleCommit},
		`04 04 0018 00000001  4f4e4600 000008fc 00000005 0004 0003`,
	},
	{
		bundleAdd{id: 5, xid: 1, inner: BarrierRequest{}},
		`04 04 0020 00000001  4f4e4600 000008fd 00000005 0000 0003  04 14 0008 00000001`,
	},
}

func TestMessagesHaveTheBytesOfTheSpecification(t *testing.T) {
	for _, g := range golden {
		want := strings.Join(strings.Fields(g.bytes), "")
		b, err := Encode(1, g.message)
		if err != nil {
			t.Errorf("%s: %v", g.message, err)
			continue
		}
		if got := fmt.Sprintf("%x", b); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", g.message, got, want)
		}
	}
}
