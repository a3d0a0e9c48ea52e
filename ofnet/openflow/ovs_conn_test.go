package openflow_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	of "github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

func TestABundleWithOneBadMessageChangesNothing(t *testing.T) {
	s, c := bridge(t, of.Options{})
	before := of.Flow{Table: 1, Priority: 1, Actions: []of.Action{of.Output{Port: 1}}}
	if err := c.Bundle(testContext(t), of.FlowMod{Flow: before}); err != nil {
		t.Fatal(err)
	}
	good := []of.Message{
		of.FlowMod{Command: of.FlowDelete, Flow: of.Flow{Table: of.TableAll}},
		of.GroupMod{Group: of.Group{ID: 1}},
		of.FlowMod{Flow: of.Flow{Table: 2, Priority: 2}},
	}
	for _, bad := range []struct {
		about   string
		message of.Message
		want    string
	}{
		{"refused when added: a meter", of.MeterMod{Meter: of.Meter{ID: 1, Flags: of.MeterKbps, Bands: []of.MeterBand{{Rate: 1}}}}, "meter add: meter=1"},
		{"refused when added: prerequisites of an action", of.FlowMod{Flow: of.Flow{Table: 3, Actions: []of.Action{of.SetField{FieldMatch: of.ARPOp(1)}}}}, "table=3"},
		{"refused when committed: a group that exists", of.GroupMod{Group: of.Group{ID: 1}}, "group add: group_id=1"},
		{"refused when committed: a group that does not exist", of.FlowMod{Flow: of.Flow{Table: 4, Actions: []of.Action{of.OutputGroup{ID: 99}}}}, "table=4"},
		{"refused when committed: a table that does not exist", of.FlowMod{Flow: of.Flow{Table: 254, Priority: 9}}, "table=254"},
	} {
		t.Run(bad.about, func(t *testing.T) {
			err := c.Bundle(testContext(t), append(slices.Clone(good), bad.message)...)
			var refusal *of.Error
			if !errors.As(err, &refusal) || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("got %v, want it to name %q", err, bad.want)
			}
			if got := dump(s, "flows"); len(got) != 1 || got[0] != before.String() {
				t.Errorf("flows: %v", got)
			}
			if got := dump(s, "groups"); len(got) != 0 {
				t.Errorf("groups: %v", got)
			}
		})
	}
	if err := c.Bundle(testContext(t), good...); err != nil {
		t.Errorf("the rest of it is not good: %v", err)
	}
	if got := dump(s, "flows"); len(got) != 1 || got[0] != "table=2, priority=2 actions=drop" {
		t.Errorf("flows: %v", got)
	}
}

func TestWhatIsSentAloneTakesEffectAloneAndRefusalsComeBack(t *testing.T) {
	s, c := bridge(t, of.Options{})
	err := c.Send(testContext(t),
		of.FlowMod{Flow: of.Flow{Table: 1}},
		of.FlowMod{Flow: of.Flow{Table: 2, Actions: []of.Action{of.OutputGroup{ID: 99}}}},
		of.FlowMod{Flow: of.Flow{Table: 3}})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "table=2") || !strings.Contains(err.Error(), "bad output group") {
		t.Errorf("got %v", err)
	}
	if got := dump(s, "flows"); len(got) != 2 {
		t.Errorf("flows: %v", got)
	}
}

func TestClientReconnectsAfterVswitchdIsKilled(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge("br0")
	ctx, cancel := context.WithCancel(context.Background()) // each step has its time
	defer cancel()

	connected := make(chan *of.Conn)
	client := &of.Client{
		Target:      s.Bridge("br0"),
		FirstRedial: 10 * time.Millisecond,
		LastRedial:  10 * time.Millisecond,
		OnConnect: func(ctx context.Context, c *of.Conn) error {
			if err := c.Bundle(ctx, of.FlowMod{Flow: of.Flow{Table: 1, Priority: 7}}); err != nil {
				return err
			}
			select {
			case connected <- c:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx) }()

	first := await(t, connected)
	s.KillVswitchd()
	await(t, first.Done())
	if !fault.Is(first.Err(), fault.Unavailable) {
		t.Errorf("end of the first connection: %v", first.Err())
	}
	s.StartVswitchd()
	second := await(t, connected)
	if first == second {
		t.Error("the same connection")
	}
	if got := dump(s, "flows"); len(got) != 1 {
		t.Errorf("flows after the restart: %v", got)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("end of the client: %v", err)
	}
}

func await[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("it does not come")
		panic("unreachable")
	}
}

// awaitOther returns the next event that is not about a port: the switch may report the state of its local port at
// any time.
func awaitOther(t *testing.T, from <-chan of.Message) of.Message {
	t.Helper()
	for {
		m := await(t, from)
		if _, ok := m.(of.PortStatus); !ok {
			return m
		}
	}
}

// events collects the messages that a switch sends without a request.
func events() (func(of.Message), <-chan of.Message) {
	c := make(chan of.Message, 100)
	return func(m of.Message) { c <- m }, c
}

func TestPacketsGoOutAndComeIn(t *testing.T) {
	onEvent, got := events()
	_, c := bridge(t, of.Options{OnEvent: onEvent})
	frame := make([]byte, 60)
	copy(frame, "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01")
	err := c.Bundle(testContext(t), of.FlowMod{Flow: of.Flow{
		Table: 0, Priority: 1, Cookie: 0xbeef, Match: of.Match{of.EthType(of.EthTypeARP), of.ARPOp(1)},
		Actions:  []of.Action{of.SetField{FieldMatch: of.Reg(3, 0x1234, ^uint32(0))}, of.SetField{FieldMatch: of.TunnelID(77)}, of.ToController()},
		Metadata: 5, MetadataMask: 0xff,
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.PacketOut(testContext(t), of.PacketOut{InPort: of.PortLocal, Actions: []of.Action{of.Output{Port: of.PortTable}}, Data: frame}); err != nil {
		t.Fatal(err)
	}
	packet, ok := awaitOther(t, got).(of.PacketIn)
	if !ok {
		t.Fatalf("got %v", packet)
	}
	if packet.Table != 0 || packet.Cookie != 0xbeef || packet.Reason != of.ReasonAction || packet.InPort() != of.PortLocal {
		t.Errorf("packet-in: %s", packet)
	}
	for _, want := range []of.FieldMatch{of.Reg(3, 0x1234, ^uint32(0)), of.TunnelID(77)} {
		if fm, ok := packet.Match.Get(want.Field); !ok || fm != want {
			t.Errorf("%s: got %v in %s", want.Field, fm, packet.Match)
		}
	}
	if !bytes.Equal(packet.Data, frame) || int(packet.TotalLen) != len(frame) {
		t.Errorf("%d bytes: % x", packet.TotalLen, packet.Data)
	}
	flows, err := c.Flows(testContext(t), of.FlowFilter{})
	if err != nil || len(flows) != 1 || flows[0].Packets != 1 || flows[0].Bytes != uint64(len(frame)) {
		t.Errorf("flows: %+v, %v", flows, err)
	}
}

// A packet that the switch sends us with its continuation waits until we resume it.
func TestAPacketWaitsForUsAndGoesOnWithWhatWeChanged(t *testing.T) {
	onEvent, got := events()
	s, c := bridge(t, of.Options{OnEvent: onEvent})
	s.Ofctl("add-meter", "br0", "meter=3,pktps,bands=type=drop,rate=100")
	err := c.Bundle(testContext(t),
		of.FlowMod{Flow: of.Flow{Priority: 1, Match: of.Match{of.EthType(of.EthTypeARP)}, Actions: []of.Action{
			of.SetField{FieldMatch: of.Reg(3, 7, ^uint32(0))},
			of.Controller{MaxLen: of.NoBuffer, Reason: of.ReasonAction, UserData: []byte{1, 2, 3}, Pause: true, Meter: 3},
			of.Resubmit{Table: 5},
		}}},
		of.FlowMod{Flow: of.Flow{Table: 5, Priority: 1, Match: of.Match{of.Reg(3, 8, ^uint32(0))}}})
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 60)
	copy(frame, "\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01")
	if err := c.PacketOut(testContext(t), of.PacketOut{InPort: of.PortLocal, Actions: []of.Action{of.Output{Port: of.PortTable}}, Data: frame}); err != nil {
		t.Fatal(err)
	}
	packet, ok := awaitOther(t, got).(of.PacketIn)
	if !ok || !bytes.Equal(packet.UserData, []byte{1, 2, 3}) || len(packet.Continuation) == 0 {
		t.Fatalf("got %v", packet)
	}
	for i, fm := range packet.Match {
		if fm.Field == of.FieldReg(3) {
			packet.Match[i] = of.Reg(3, 8, ^uint32(0))
		}
	}
	if err := c.Resume(testContext(t), packet); err != nil {
		t.Fatal(err)
	}
	if sum, err := c.Aggregate(testContext(t), of.FlowFilter{OneTable: true, Table: 5}); err != nil || sum.Packets != 1 {
		t.Errorf("table 5 saw %+v, %v", sum, err)
	}
}

func TestEventsThatAreNotAskedForDoNotCome(t *testing.T) {
	onEvent, got := events()
	s, c := bridge(t, of.Options{OnEvent: onEvent})
	const noPackets, ports, flows = 0, 1<<of.PortAdded | 1<<of.PortDeleted | 1<<of.PortModified, 1 << of.RemovedDelete
	if err := c.Send(testContext(t), of.SetAsync{PacketIn: noPackets, PortStatus: ports, FlowRemoved: flows}); err != nil {
		t.Fatal(err)
	}
	send := of.FlowMod{Flow: of.Flow{Actions: []of.Action{of.ToController()}, Flags: of.FlowSendRemoved}}
	if err := c.Send(testContext(t), send,
		of.PacketOut{InPort: of.PortLocal, Actions: []of.Action{of.Output{Port: of.PortTable}}, Data: make([]byte, 60)}); err != nil {
		t.Fatal(err)
	}
	s.Vsctl("add-port", "br0", "p1", "--", "set", "interface", "p1", "type=internal")
	if first, ok := await(t, got).(of.PortStatus); !ok {
		t.Errorf("the first event is %v", first)
	}
}

func TestAPacketWithABadActionIsRefused(t *testing.T) {
	_, c := bridge(t, of.Options{})
	err := c.PacketOut(testContext(t), of.PacketOut{Actions: []of.Action{of.OutputGroup{ID: 9}}, Data: make([]byte, 60)})
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "packet-out of 60 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestPortsComeAndGo(t *testing.T) {
	onEvent, got := events()
	s, c := bridge(t, of.Options{OnEvent: onEvent})
	s.Vsctl("add-port", "br0", "p1", "--", "set", "interface", "p1", "type=internal", "ofport_request=7")
	isStatus := func(reason of.PortReason) of.Port {
		for {
			if status, ok := await(t, got).(of.PortStatus); ok && status.Reason == reason && status.Port.Name == "p1" {
				return status.Port
			}
		}
	}
	if port := isStatus(of.PortAdded); port.No != 7 {
		t.Errorf("added: %+v", port)
	}
	ports, err := c.PortDesc(testContext(t))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]uint32{}
	for _, p := range ports {
		names[p.Name] = p.No
	}
	if len(names) != 2 || names["p1"] != 7 || names["br0"] != of.PortLocal {
		t.Errorf("ports: %v", names)
	}
	s.Vsctl("del-port", "br0", "p1")
	isStatus(of.PortDeleted)
}

func TestARemovedFlowIsReported(t *testing.T) {
	onEvent, got := events()
	_, c := bridge(t, of.Options{OnEvent: onEvent})
	flow := of.Flow{Table: 2, Priority: 9, Cookie: 4, Match: ip4, Flags: of.FlowSendRemoved}
	err := c.Send(testContext(t), of.FlowMod{Flow: flow}, of.FlowMod{Command: of.FlowDelete, Flow: of.Flow{Table: 2}})
	if err != nil {
		t.Fatal(err)
	}
	removed, ok := awaitOther(t, got).(of.FlowRemoved)
	if !ok || removed.MatchKey() != flow.MatchKey() || removed.Cookie != 4 || removed.Reason != of.RemovedDelete {
		t.Errorf("got %v", removed)
	}
}

func TestTheSwitchDescribesItself(t *testing.T) {
	_, c := bridge(t, of.Options{})
	install(t, c)
	ctx := testContext(t)
	if c.Features().Tables == 0 || c.Features().DatapathID == 0 {
		t.Errorf("features: %+v", c.Features())
	}
	if m, err := c.MeterFeatures(ctx); err != nil || m.MaxMeters == 0 || m.Flags&of.MeterKbps == 0 {
		t.Errorf("meter features: %+v, %v", m, err)
	}
	if list, err := c.Tables(ctx); err != nil || len(list) < 250 || list[3].Active != 3 {
		t.Errorf("tables: %d, %v", len(list), err)
	}
	meters, err := c.MeterStats(ctx)
	if err != nil || len(meters) != len(wideMeters) {
		t.Fatalf("meter statistics: %+v, %v", meters, err)
	}
	for _, m := range meters {
		if len(m.Bands) != 1 {
			t.Errorf("meter statistics: %+v", m)
		}
	}
}

func TestThousandsOfFlowsComeBackInMany(t *testing.T) {
	_, c := bridge(t, of.Options{})
	if err := c.Bundle(testContext(t), manyFlows(5000)...); err != nil {
		t.Fatal(err)
	}
	flows, err := c.Flows(testContext(t), of.FlowFilter{})
	if err != nil || len(flows) != 5000 {
		t.Errorf("%d flows, %v", len(flows), err)
	}
}

// manyFlows are what a pipeline has most of: one flow per remote endpoint.
func manyFlows(n int) []of.Message {
	messages := make([]of.Message, n)
	for i := range messages {
		messages[i] = of.FlowMod{Flow: of.Flow{
			Table: 7, Priority: 100, Cookie: uint64(i),
			Match: of.Match{of.EthType(of.EthTypeIPv4), of.Reg(3, 1, ^uint32(0)), of.IPv4Dst(inet.Host(address(i)))},
			Actions: []of.Action{
				of.SetField{FieldMatch: of.TunnelID(10000)}, of.SetField{FieldMatch: of.EthDst(anycast)},
				of.SetField{FieldMatch: of.TunDst(host("10.1.1.2"))}, of.Output{Port: 1},
			},
		}}
	}
	return messages
}
