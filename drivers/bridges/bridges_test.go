package bridges_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/bridges"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// bridge is a driver that keeps what it is given.
type bridge struct {
	name    string
	objects map[pipeline.Key]pipeline.Object
	ports   map[string]bool
	synced  []pipeline.Key
	left    []pipeline.Endpoint
	syncs   int
}

// links are uplinks with this problem.
type links struct{ problem string }

func (l links) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
func (l links) Problem() string               { return l.problem }
func (l links) States() map[string]string     { return map[string]string{"eth1": l.problem} }

func newBridge(name string) *bridge {
	return &bridge{name: name, objects: map[pipeline.Key]pipeline.Object{}, ports: map[string]bool{}}
}

func (b *bridge) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func (b *bridge) Update(c drivers.Change) {
	if c.Replace {
		clear(b.objects)
	}
	for _, key := range c.Remove {
		delete(b.objects, key)
	}
	for _, o := range c.Set {
		b.objects[o.Key()] = o
	}
	b.left = append(b.left, c.Left...)
}

func (b *bridge) Sync(_ context.Context, keys ...pipeline.Key) error {
	b.syncs++
	b.synced = append(b.synced, keys...)
	return nil
}

func (b *bridge) AddPort(_ context.Context, _ pipeline.Encap, id string, _ int) (drivers.Port, error) {
	b.ports[id] = true
	return b.FindPort(context.Background(), id)
}

func (b *bridge) FindPort(_ context.Context, id string) (drivers.Port, error) {
	if !b.ports[id] {
		return drivers.Port{}, fault.New(fault.NotFound, "port of %s: there is none", id)
	}
	return drivers.Port{EndpointID: id, HostLink: b.name}, nil
}

func (b *bridge) RemovePort(_ context.Context, id string) error {
	delete(b.ports, id)
	return nil
}

func (b *bridge) PortUsed(id string) (bool, error) { return b.ports[id], nil }

func (b *bridge) Ports() (list []drivers.Port) {
	for id := range b.ports {
		list = append(list, drivers.Port{EndpointID: id, HostLink: b.name})
	}
	return list
}

func (b *bridge) Counters(_ context.Context, keys ...pipeline.Key) (map[pipeline.Key]drivers.Counters, error) {
	counted := map[pipeline.Key]drivers.Counters{}
	for _, key := range keys {
		if b.objects[key] != nil {
			counted[key] = drivers.Counters{Sent: drivers.Count{Packets: 1}, Decided: drivers.Count{Packets: 2, Bytes: 3}}
		}
	}
	return counted, nil
}

func (b *bridge) Status() drivers.Status {
	return drivers.Status{Connected: true, InSync: len(b.objects) > 0, Bridge: b.name, Flows: len(b.objects), Ports: len(b.ports)}
}

func (b *bridge) has() string {
	var list []string
	for key := range maps.Keys(b.objects) {
		list = append(list, fmt.Sprint(key.Kind, " ", key.ID))
	}
	return sorted(strings.Join(list, ", "))
}

func sorted(list string) string {
	return strings.Join(slices.Sorted(strings.SplitSeq(list, ", ")), ", ")
}

func objectsOf(encap pipeline.Encap, network string) []pipeline.Object {
	return []pipeline.Object{
		pipeline.Network{ID: network, Encap: encap}, pipeline.Endpoint{ID: network + "-1", Network: network, Encap: encap},
		pipeline.FloodSet{Network: network, Encap: encap},
	}
}

func TestObjectsAreOnTheBridgeOfTheirEncapsulationAndRulesOnBoth(t *testing.T) {
	tunnel, uplink := newBridge("tunnel"), newBridge("uplink")
	pair := bridges.New(tunnel, uplink, links{})
	expect := func(step, wantTunnel, wantUplink string) {
		t.Helper()
		wantTunnel, wantUplink = sorted(wantTunnel), sorted(wantUplink)
		if tunnel.has() != wantTunnel || uplink.has() != wantUplink {
			t.Errorf("%s:\n tunnel %s, want %s\n uplink %s, want %s", step, tunnel.has(), wantTunnel, uplink.has(), wantUplink)
		}
	}
	const a, b, r = "endpoint a-1, flood set a, network a", "endpoint b-1, flood set b, network b", "rule r"
	rule := pipeline.Rule{ID: "r"}
	pair.Update(drivers.Change{Replace: true, Set: slices.Concat(objectsOf(pipeline.VXLAN, "a"), objectsOf(pipeline.VLAN, "b"), []pipeline.Object{rule})})
	expect("all", a+", "+r, b+", "+r)

	left := []pipeline.Endpoint{{ID: "a-2", Encap: pipeline.VXLAN}, {ID: "b-2", Encap: pipeline.VLAN}}
	pair.Update(drivers.Change{Remove: []pipeline.Key{left[0].Key(), left[1].Key()}, Left: left})
	if !slices.Equal(tunnel.left, left[:1]) || !slices.Equal(uplink.left, left[1:]) {
		t.Errorf("tunnel is told that %v left, uplink that %v did", tunnel.left, uplink.left)
	}

	if err := pair.Sync(t.Context(), pipeline.Key{Kind: pipeline.KindNetwork, ID: "b"}, rule.Key()); err != nil || len(tunnel.synced) != 1 || len(uplink.synced) != 2 {
		t.Errorf("sync of a network and a rule: %v, %v, %v", err, tunnel.synced, uplink.synced)
	}
	if err := pair.Sync(t.Context(), pipeline.Key{Kind: pipeline.KindNetwork, ID: "a"}); err != nil || uplink.syncs != 1 {
		t.Errorf("sync of a network waits for %d other things: %v", uplink.syncs-1, err)
	}
	if err := pair.Sync(t.Context()); err != nil || tunnel.syncs != 3 || uplink.syncs != 2 {
		t.Errorf("sync of all: %v, %d, %d", err, tunnel.syncs, uplink.syncs)
	}
	counted, err := pair.Counters(t.Context(), rule.Key(), pipeline.Key{Kind: pipeline.KindEndpoint, ID: "b-1"})
	if err != nil || len(counted) != 2 || counted[rule.Key()].Decided != (drivers.Count{Packets: 4, Bytes: 6}) {
		t.Errorf("counters %v, %v", counted, err)
	}
	if s := pair.Status(); !s.Connected || !s.InSync || s.Flows != 8 || s.VXLAN.Flows != 4 || s.VLAN.Bridge != "uplink" || s.LastError != "" {
		t.Errorf("status %+v", s)
	}
	var names []string
	for _, b := range pair.Status().Bridges() {
		names = append(names, b.Bridge)
	}
	if alone := tunnel.Status().Bridges(); !slices.Equal(names, []string{"tunnel", "uplink"}) || len(alone) != 1 || alone[0].Bridge != "tunnel" {
		t.Errorf("bridges %q, of one alone %+v", names, alone)
	}
	if s := bridges.New(tunnel, uplink, links{"eth1 is gone"}).Status(); s.LastError != "eth1 is gone" || s.VLAN.LastError != s.LastError || s.VXLAN.LastError != "" {
		t.Errorf("status without an uplink: %+v", s)
	}

	pair.Update(drivers.Change{Set: objectsOf(pipeline.VLAN, "a")})
	expect("a is a VLAN now", r, a+", "+b+", "+r)
	pair.Update(drivers.Change{Set: objectsOf(pipeline.VXLAN, "b")})
	expect("b is none now", b+", "+r, a+", "+r)
	var keys []pipeline.Key
	for _, o := range append(objectsOf(pipeline.VLAN, "a"), append(objectsOf(pipeline.VXLAN, "b"), rule)...) {
		keys = append(keys, o.Key())
	}
	pair.Update(drivers.Change{Remove: keys})
	expect("nothing", "", "")
	pair.Update(drivers.Change{Replace: true, Set: objectsOf(pipeline.VLAN, "a")})
	pair.Update(drivers.Change{Replace: true, Set: objectsOf(pipeline.VXLAN, "a")})
	expect("replaced", a, "")
}

func TestPortsAreFoundAndRemovedOnEitherBridge(t *testing.T) {
	tunnel, uplink := newBridge("tunnel"), newBridge("uplink")
	pair := bridges.New(tunnel, uplink, links{})
	for id, encap := range map[string]pipeline.Encap{"a-1": pipeline.VXLAN, "b-1": pipeline.VLAN} {
		port, err := pair.AddPort(t.Context(), encap, id, 0)
		if found, failed := pair.FindPort(t.Context(), id); err != nil || failed != nil || found != port || (port.HostLink == "uplink") != (encap == pipeline.VLAN) {
			t.Errorf("%s: %+v, %v; found %+v, %v", id, port, err, found, failed)
		}
	}
	if ports := pair.Ports(); len(ports) != 2 || ports[0].EndpointID != "a-1" {
		t.Errorf("ports %v", ports)
	}
	for _, id := range []string{"a-1", "b-1"} {
		if used, err := pair.PortUsed(id); !used || err != nil {
			t.Errorf("%s is used: %v, %v", id, used, err)
		}
		if err := pair.RemovePort(t.Context(), id); err != nil {
			t.Error(err)
		}
		if used, err := pair.PortUsed(id); used || err != nil {
			t.Errorf("%s is used after its removal: %v, %v", id, used, err)
		}
	}
	if _, err := pair.FindPort(t.Context(), "b-1"); !fault.Is(err, fault.NotFound) || len(pair.Ports()) != 0 {
		t.Errorf("after removal: %v, %v", err, pair.Ports())
	}
}

func TestABridgeAloneTellsWhatIsLeftOfUplinks(t *testing.T) {
	alone := bridges.NewAlone(newBridge("tunnel"), links{"eth1 is a port still"})
	if s := alone.Status(); s.LastError != "eth1 is a port still" || !s.Connected || s.Bridge != "tunnel" {
		t.Errorf("%+v", s)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := alone.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}
