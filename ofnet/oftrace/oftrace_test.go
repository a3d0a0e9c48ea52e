package oftrace

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// As Open vSwitch 3.1 prints it; package tracing asks a real switch.
const recorded = `Flow: tcp,in_port=2,vlan_tci=0x0000,dl_src=02:02:0a:01:00:01,dl_dst=02:02:0a:01:00:02,nw_src=10.1.0.1,nw_dst=10.1.0.2,nw_tos=0,nw_ecn=0,nw_ttl=64,nw_frag=no,tp_src=49152,tp_dst=80,tcp_flags=syn

bridge("contivVxlanBridge")
---------------------------
 0. in_port=2, priority 100, cookie 0xc003e3de7e120d50
    resubmit(,42)
    42. No match.
            drop
    set_field:0x1/0x7->reg0
    goto_table:20
20. ip,in_port=2,dl_src=02:02:0a:01:00:01,nw_src=10.1.0.1, priority 100, cookie 0xc003e3de7e120d50
    goto_table:33
33. priority 1
    ct(table=34,zone=NXM_NX_REG12[0..15])
    drop
     -> A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table 34.
     -> Sets the packet to an untracked state, and clears all the conntrack fields.

Final flow: unchanged
Megaflow: recirc_id=0,eth,tcp,in_port=2
Datapath actions: ct(zone=32769),recirc(0x1)

===============================================================================
recirc(0x1) - resume conntrack with default ct_state=trk|new (use --ct-next to customize)
===============================================================================

Flow: recirc_id=0x1,ct_state=new|trk

bridge("contivVxlanBridge")
---------------------------
    thaw
        Resuming from table 34
34. reg0=0x3000000/0xff000000, priority 100, cookie 0xc0019ce48422e8d7
    >> output skipped
    drop

Final flow: unchanged
Megaflow: recirc_id=0x1
Datapath actions: drop
`

func TestTheWayOfAPacketIsRead(t *testing.T) {
	got := Parse(recorded)
	want := Trace{Datapath: "drop", Warnings: []string{"output skipped"}, Resumed: []Resumed{{34, 4, "recirc_id=0x1,ct_state=new|trk"}}, Steps: []Step{
		{Table: 0, Match: "in_port=2", Cookie: 0xc003e3de7e120d50, Actions: []string{"resubmit(,42)"}},
		{Table: 42, Missed: true, Actions: []string{"drop", "set_field:0x1/0x7->reg0", "goto_table:20"}},
		{Table: 20, Match: "ip,in_port=2,dl_src=02:02:0a:01:00:01,nw_src=10.1.0.1", Cookie: 0xc003e3de7e120d50, Actions: []string{"goto_table:33"}},
		{Table: 33, Actions: []string{"ct(table=34,zone=NXM_NX_REG12[0..15])", "drop",
			"-> A clone of the packet is forked to recirculate. The forked pipeline will be resumed at table 34.",
			"-> Sets the packet to an untracked state, and clears all the conntrack fields.", "thaw", "Resuming from table 34"}},
		{Table: 34, Match: "reg0=0x3000000/0xff000000", Cookie: 0xc0019ce48422e8d7, Actions: []string{"drop"}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Lost {
		t.Error("nothing is lost")
	}
	const conflict = "    thaw\n     >>>> Recirculation conflict (actions)! <<<<\n\nFinal flow: unchanged\nDatapath actions: drop\n"
	cut := strings.Index(recorded, "    thaw")
	if got := Parse(recorded[:cut] + conflict); !got.Lost || len(got.Steps) != 4 || len(got.Warnings) != 0 || len(got.Resumed) != 1 || got.Resumed[0].Before != 4 {
		t.Errorf("of one that is lost: %+v", got)
	}
	for _, text := range []string{"", "999. x", "bridge(\"b\")\n----\n999. x\n", "Datapath actions: "} {
		if got := Parse(text); len(got.Steps) != 0 {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// Behind the connection tracker the switch prints of every packet into a tunnel that it is for its own address.
// That is true of a packet that came out of a tunnel, and would return there.
func TestAPacketIntoATunnelIsSentBehindTheTrackerToo(t *testing.T) {
	const warns = "    output:1\n     >> Not tunneling to our own address\n\nFinal flow: unchanged\nDatapath actions: "
	first := "bridge(\"b\")\n-----\n30. reg5=0x1, priority 200\n"
	again := first + "    ct(table=34)\nDatapath actions: ct(zone=1),recirc(0x1)\n\nbridge(\"b\")\n-----\n    thaw\n        Resuming from table 30\n30. reg5=0x1, priority 200\n"
	for _, c := range []struct {
		name, text, datapath string
		warnings             []string
	}{
		{"out of a tunnel", first + warns + "drop\n", "drop", []string{"Not tunneling to our own address"}},
		{"behind the tracker", again + warns + "drop\n", "", nil},
		{"behind the tracker, and large ones are answered", again + warns + "check_pkt_len(size=1464,gt(meter(1)),le(drop))\n", "check_pkt_len(size=1464,gt(meter(1)),le(drop))", nil},
		{"dropped there", again + "    drop\n\nFinal flow: unchanged\nDatapath actions: drop\n", "drop", nil},
	} {
		if got := Parse(c.text); got.Datapath != c.datapath || !slices.Equal(got.Warnings, c.warnings) {
			t.Errorf("%s: %q, warnings %q", c.name, got.Datapath, got.Warnings)
		}
	}
}

// Whatever the switch prints, what is read of it is in it.
func FuzzTextsOfAnyContent(f *testing.F) {
	for _, text := range []string{recorded, "", "bridge(\"b\")\n----\n 0. in_port=2, priority 100, cookie 0xfffffffffffffffffff\n", "bridge(\"b\")\n255(no name). priority 1\n>> x\n",
		"bridge(\"b\")\n999. x\n", "bridge(\"a\")\nbridge(\"b\")\n1. x\nFinal flow: tcp\nDatapath actions: 3\n", "Datapath actions: "} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Parse(text)
		said := append([]string{got.Final, got.Datapath}, got.Warnings...)
		things := len(got.Steps) + len(got.Warnings)
		for _, step := range got.Steps {
			said = append(append(said, step.Match), step.Actions...)
			things += len(step.Actions)
		}
		if lines := strings.Count(text, "\n") + 1; things > lines || things > 0 && !strings.Contains(text, `bridge("`) {
			t.Errorf("%d things are read of %d lines", things, lines)
		}
		for _, one := range said {
			if !strings.Contains(text, one) {
				t.Errorf("%q is read, and not there", one)
			}
		}
	})
}
