package pipeline

import (
	"slices"
	"testing"

	"github.com/contiv/netplugin/ofnet/openflow"
)

func TestTablesAreNumberedAsTheyAreDeclaredAndPacketsMoveDown(t *testing.T) {
	p := node1()
	wants, filled := p.Base(), map[uint8]bool{}
	for _, o := range goldenObjects {
		wants.add(wantsOf(p, o, portOf(o)))
	}
	for _, f := range wants.Flows {
		filled[f.Table] = true
		if f.Goto != 0 && f.Goto <= f.Table {
			t.Errorf("%s leads up", f)
		}
	}
	for i, table := range Tables() {
		want := uint8(firstTable + i - 1)
		if i == 0 {
			want = 0
		}
		ofNoObject := table.ID == tableAffinity || table.ID == tableDeparted
		if table.ID != want || filled[table.ID] == ofNoObject {
			t.Errorf("table %s is %d, want %d, and has flows: %v", table.Name, table.ID, want, filled[table.ID])
		}
		delete(filled, table.ID)
	}
	for id := range filled {
		t.Errorf("table %d is not described", id)
	}
}

// An upgrade writes these tables beside those of the earlier layout.
func TestNoTableButTheFirstIsOneOfTheLayoutBefore(t *testing.T) {
	const lastBefore = 14
	for _, table := range Tables()[1:] {
		if table.ID <= lastBefore {
			t.Errorf("table %d %s", table.ID, table.Name)
		}
	}
}

// Most flows of a switch are those of remote endpoints.
func TestARemoteEndpointCostsThreeFlowsPerVersionOfIP(t *testing.T) {
	perVersion := map[uint16]int{}
	for _, f := range flowsOf(node1(), web2, 0) {
		version, _ := f.Match.Get(openflow.FieldEthType)
		four := openflow.EthType(openflow.EthTypeARP) == version || ipv4().is() == version
		if four {
			perVersion[4]++
		} else {
			perVersion[6]++
		}
	}
	if perVersion[4] != 3 || perVersion[6] != 3 {
		t.Errorf("flows: %v", perVersion)
	}
}

// Registers must not overlap, except the two that are never used together with SCRATCH.
func TestRegistersDoNotOverlap(t *testing.T) {
	taken := map[int]string{}
	for _, r := range Registers() {
		for i := range int(r.Bits) { // from the lowest, which is in the last of several registers
			word, bit := (int(r.Bits)-1)/32-(int(r.Ofs)+i)/32, (int(r.Ofs)+i)%32
			if r.Bits <= 32 {
				word = 0
			}
			at := (r.Index+word)*32 + bit
			if other, ok := taken[at]; ok {
				t.Fatalf("%s and %s share bit %d of reg%d", r.Name, other, bit, r.Index+word)
			}
			taken[at] = r.Name
		}
	}
}

// An audit compares bytes: the switch must report flows as they were written.
func TestTheSwitchReportsTheBytesOfEveryFlow(t *testing.T) {
	c := startCluster(t, web1, db1, lan1, hub1)
	c.know(web2, db2, lan2)
	n := c.nodes[0]
	wants := c.wants(n, shop(web1.IPv4, web2.IPv4), tcpRule("sql", 10, 5432, "syn,!ack", true), rule("net", 20, func(r *Rule) { r.Src = prefix("fd00::/16") }))
	n.replace(t, wants)
	effects := map[string]string{}
	for _, f := range wants.Flows {
		effect, err := f.Effect()
		if err != nil {
			t.Fatal(err)
		}
		effects[f.MatchKey()] = effect
	}
	seen := 0
	n.connected(t, func(conn *openflow.Conn) error {
		groups, err := conn.Groups(t.Context())
		if err != nil {
			return err
		}
		for _, g := range wants.Groups {
			if !slices.ContainsFunc(groups, g.Equal) {
				t.Errorf("reported in another way: %s, in %v", g, groups)
			}
		}
		return conn.EachFlow(t.Context(), openflow.FlowFilter{}, func(f openflow.FlowEntry) error {
			seen++
			if effect, ok := effects[string(f.AppendKey(nil))]; !ok || string(f.AppendEffect(nil)) != effect {
				t.Errorf("reported in another way: %s", f.Flow().Flow)
			}
			return nil
		})
	})
	if seen != len(effects) {
		t.Errorf("%d flows, want %d", seen, len(effects))
	}
}
