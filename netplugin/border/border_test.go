package border

import (
	"context"
	"net/netip"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// portDriver counts the interfaces that are removed, and has ports and all objects set.
type portDriver struct {
	drivers.NetworkDriver
	removed []string
	given   []pipeline.Object
	ports   []string                    // endpoints that have one
	sync    func(...pipeline.Key) error // nil: there is nothing to wait for
}

func (d *portDriver) Sync(_ context.Context, keys ...pipeline.Key) error {
	if d.sync == nil {
		return nil
	}
	return d.sync(keys...)
}

func (d *portDriver) Ports() (list []drivers.Port) {
	for _, id := range d.ports {
		list = append(list, drivers.Port{EndpointID: id, OFPort: 7})
	}
	return list
}

func (d *portDriver) Update(c drivers.Change) { d.given = append(d.given, c.Set...) }

func (d *portDriver) RemovePort(_ context.Context, id string) error {
	d.removed = append(d.removed, id)
	return nil
}

// A node may have ceased to be a router while netplugin did not run.
func TestTheInterfaceOfAnEarlierRunIsRemoved(t *testing.T) {
	d := &portDriver{}
	border := New(Config{Driver: d, StateFile: filepath.Join(t.TempDir(), "routes.json")})
	border.reconcile(t.Context())
	if len(d.removed) > 0 {
		t.Error("removed before anything is known")
	}
	border.Update(drivers.Change{Replace: true})
	for range 2 {
		border.reconcile(t.Context())
	}
	if len(d.removed) != 1 || d.removed[0] != Interface {
		t.Errorf("removed %q", d.removed)
	}
}

func TestNothingLeadsToAFormerNeighbour(t *testing.T) {
	border := New(Config{Driver: &portDriver{}, StateFile: filepath.Join(t.TempDir(), "routes.json")})
	for _, now := range [][]string{{"192.0.2.1", "192.0.2.2"}, {"192.0.2.3", "192.0.2.2"}, nil} {
		wanted := &agent.BGP{AS: 1, Link: prefix("192.0.2.9/24")}
		for _, address := range now {
			wanted.Neighbours = append(wanted.Neighbours, bgp.Neighbour{Address: addr(address), AS: 2})
		}
		border.Configure(wanted)
		border.open(wanted)
		if len(border.rib.given) != len(now) {
			t.Errorf("neighbours %v, routes %v", now, border.rib.given)
		}
	}
}

// alone runs a function in a network of its own.
func alone(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for ever: the thread ends with its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			t.Error(err)
			return
		}
		do()
	}()
	<-done
}

// sh runs a script in the network of the calling thread.
func sh(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// The first state replaces the switch's content: a missing next hop would lose packets.
func TestTheFirstStateHasTheWaysToOtherNodes(t *testing.T) {
	testkit.NeedsMachine(t)
	alone(t, func() {
		sh(t, `ip link add inb01 type veth peer name outside; ip link set outside up; ip link set inb01 up
ip address add 192.0.2.9/24 dev inb01; ip neighbour add 192.0.2.8 lladdr 02:00:00:00:00:08 dev inb01`)
		file := filepath.Join(t.TempDir(), "routes.json")
		wanted := &agent.BGP{AS: 1, Link: prefix("192.0.2.9/24")}
		first := New(Config{Driver: &portDriver{}, StateFile: file})
		first.Configure(wanted)
		first.saveRoutes()
		d := &portDriver{}
		next := New(Config{Driver: d, StateFile: file})
		next.Configure(wanted)
		remote := pipeline.Endpoint{ID: "b", Encap: pipeline.VLAN, IPv4: addr("10.1.1.2"), VTEP: addr("192.0.2.8")}
		next.Update(drivers.Change{Replace: true, Set: []pipeline.Object{remote}})
		if !slices.ContainsFunc(d.given, func(o pipeline.Object) bool {
			hop, ok := o.(pipeline.NextHop)
			return ok && hop.Address == addr("192.0.2.8")
		}) {
			t.Errorf("given %v", d.given)
		}
	})
}

// The speaker may be busy for as long as it is silenced, and go on unaware of it: its neighbours send no routes
// again.
func TestARouterThatIsMadeAnewHasTheRoutesOfASpeakerThatWentOn(t *testing.T) {
	border := New(Config{Driver: &portDriver{}, StateFile: filepath.Join(t.TempDir(), "routes.json")})
	wanted := &agent.BGP{AS: 1, Link: prefix("192.0.2.9/24")}
	border.Configure(wanted)
	border.open(wanted)
	border.speaker.Recall([]bgp.Route{{Prefix: prefix("198.51.100.0/24"), Neighbour: addr("192.0.2.1"), NextHop: addr("192.0.2.1")}})
	for range 2 {
		border.takeIn(t.Context(), true)
		if next := border.rib.learned[prefix("198.51.100.0/24")]; len(next) != 1 {
			t.Fatalf("learned %v", border.rib.learned)
		}
		if err := border.removeRouter(t.Context()); err != nil {
			t.Fatal(err)
		}
		border.takeIn(t.Context(), true)
		if len(border.rib.learned) > 0 {
			t.Errorf("learned without a router: %v", border.rib.learned)
		}
		border.open(wanted)
		border.cleared = false // as become does
	}
}

// A router may pass on a next hop that is not on the link: the kernel would send to its gateway, and the switch
// has no route to it.
func TestNextHopsElsewhereAreIgnored(t *testing.T) {
	border := New(Config{Driver: &portDriver{}, StateFile: filepath.Join(t.TempDir(), "routes.json")})
	border.Configure(&agent.BGP{Link: prefix("192.0.2.9/24"), Link6: prefix("2001:db8::9/64")})
	want := map[netip.Prefix]bool{
		prefix("198.51.100.0/25"): true, prefix("198.51.100.128/25"): false,
		prefix("2001:db8:1::/64"): true, prefix("2001:db8:2::/64"): true, prefix("2001:db8:3::/64"): false,
		// The node itself is none either: such routes would end at it.
		prefix("203.0.113.0/24"): false, prefix("2001:db8:4::/64"): false, prefix("2001:db8:5::/64"): false,
	}
	for p, next := range map[string]string{
		"198.51.100.0/25": "192.0.2.1", "198.51.100.128/25": "203.0.113.1",
		"2001:db8:1::/64": "2001:db8::1", "2001:db8:2::/64": "fe80::1", "2001:db8:3::/64": "2001:db8:ffff::1",
		"203.0.113.0/24": "192.0.2.9", "2001:db8:4::/64": "2001:db8::9", "2001:db8:5::/64": "fe80::2:c0ff:fe00:209",
	} {
		border.speaker.Recall([]bgp.Route{{Prefix: prefix(p), Neighbour: addr("192.0.2.1"), NextHop: addr(next)}})
	}
	border.takeIn(t.Context(), true)
	for p, usable := range want {
		if _, learned := border.rib.learned[p]; learned != usable {
			t.Errorf("%s: learned %t", p, learned)
		}
	}
}

// The prefix length of the routers' subnet may change, with the same address of the node in it.
func TestAnotherLengthOfTheLinkCountsAtOnce(t *testing.T) {
	border := New(Config{Driver: &portDriver{}, StateFile: filepath.Join(t.TempDir(), "routes.json")})
	border.Update(drivers.Change{Replace: true, Set: []pipeline.Object{
		pipeline.Endpoint{ID: "far", Encap: pipeline.VLAN, IPv4: addr("10.1.1.2"), VTEP: addr("192.0.2.200")},
	}})
	border.speaker.Recall([]bgp.Route{
		{Prefix: prefix("198.51.100.0/24"), Neighbour: addr("192.0.2.1"), NextHop: addr("192.0.2.201")},
		{Prefix: prefix("2001:db8:1::/64"), Neighbour: addr("192.0.2.1"), NextHop: addr("2001:db8::1:1")},
	})
	for _, step := range []struct {
		link, link6 string
		want        []string
	}{
		{"192.0.2.9/25", "2001:db8::9/112", nil},
		{"192.0.2.9/24", "2001:db8::9/112", []string{"10.1.1.2/32", "198.51.100.0/24"}},
		{"192.0.2.9/24", "2001:db8::9/64", []string{"10.1.1.2/32", "198.51.100.0/24", "2001:db8:1::/64"}},
		{"192.0.2.9/25", "2001:db8::9/64", []string{"2001:db8:1::/64"}},
	} {
		wanted := &agent.BGP{AS: 1, Link: prefix(step.link), Link6: prefix(step.link6)}
		border.Configure(wanted)
		border.open(wanted)
		border.takeIn(t.Context(), false)
		var got []string
		for p := range border.rib.given {
			got = append(got, p.String())
		}
		if slices.Sort(got); !slices.Equal(got, step.want) {
			t.Errorf("%s and %s: routes %q, want %q", step.link, step.link6, got, step.want)
		}
	}
}

func TestTheKernelTellsWhichNextHopsAnswer(t *testing.T) {
	testkit.NeedsMachine(t)
	alone(t, func() {
		sh(t, `
ip link add inb01 type veth peer name outside
ip link set outside up
ip link set inb01 up
ip address add 192.0.2.9/24 dev inb01
ip neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev inb01`)
		d, wanted := &portDriver{}, &agent.BGP{Link: prefix("192.0.2.9/24")}
		border := New(Config{Driver: d, StateFile: filepath.Join(t.TempDir(), "routes.json")})
		border.Configure(wanted)
		border.Update(drivers.Change{Replace: true})
		border.router = routerOf(wanted)
		border.speaker.Recall([]bgp.Route{
			{Prefix: prefix("198.51.100.0/25"), Neighbour: addr("192.0.2.1"), NextHop: addr("192.0.2.1")},
			{Prefix: prefix("198.51.100.128/25"), Neighbour: addr("192.0.2.2"), NextHop: addr("192.0.2.2")},
		})
		border.takeIn(t.Context(), true)
		hops := map[netip.Addr]pipeline.NextHop{}
		for _, o := range d.given {
			if hop, ok := o.(pipeline.NextHop); ok {
				hops[hop.Address] = hop
			}
		}
		one := addr("192.0.2.1")
		if want := (pipeline.NextHop{Address: one, MAC: [6]byte{2, 5: 1}, From: border.router.MAC}); len(hops) != 1 || hops[one] != want {
			t.Errorf("next hops %v", hops)
		}
		asked, err := exec.Command("ip", "neighbour", "show", "to", "192.0.2.2").CombinedOutput()
		if err != nil || !strings.Contains(string(asked), "192.0.2.2") {
			t.Errorf("the kernel was not asked for 192.0.2.2: %s, %v", asked, err)
		}
	})
}

// refusing is a driver whose ports cannot be made.
type refusing struct{ portDriver }

func (refusing) AddPort(context.Context, pipeline.Encap, string, int) (drivers.Port, error) {
	return drivers.Port{}, fault.New(fault.Unavailable, "no uplink")
}

func TestWhyANodeIsNoRouterIsTold(t *testing.T) {
	border := New(Config{Driver: &refusing{}, StateFile: filepath.Join(t.TempDir(), "routes.json")})
	registry := prometheus.NewRegistry()
	if err := border.Register(registry); err != nil {
		t.Fatal(err)
	}
	border.Configure(&agent.BGP{AS: 1, Link: prefix("192.0.2.9/24"), Neighbours: []bgp.Neighbour{{Address: addr("192.0.2.1"), AS: 2}}})
	if view := border.Inspect(); view != nil {
		t.Errorf("before anything was tried: %+v", view)
	}
	border.Update(drivers.Change{Replace: true})
	border.reconcile(t.Context())
	if view := border.Inspect(); view == nil || view.Problem != "no uplink" {
		t.Errorf("%+v", view)
	}
	if families, err := registry.Gather(); err != nil || len(families) != 4 {
		t.Errorf("%v, %v", families, err)
	}
}

// A service is announced while it is served on this node, whatever else changes about it.
func TestServicesAreAnnouncedWhileTheyAreServedHere(t *testing.T) {
	border := withProviders(t)
	served := func(encap pipeline.Encap, serving ...string) pipeline.Service {
		pods := pipeline.ServicePort{Address: addr("10.1.7.200"), From: pipeline.FromPods, Protocol: 6, Port: 80, Target: 8080}
		outer := pipeline.ServicePort{Address: addr("10.1.7.200"), From: pipeline.FromOutside, Protocol: 6, Port: 80}
		for _, at := range serving {
			outer.Serving = append(outer.Serving, netip.MustParseAddrPort(at))
		}
		second := outer
		second.Port = 443
		return pipeline.Service{ID: "shop:blue", Encap: encap, Ports: []pipeline.ServicePort{pods, outer, second}}
	}
	for _, step := range []struct {
		what   string
		change drivers.Change
		want   int
	}{
		{"no provider here", drivers.Change{Set: []pipeline.Object{served(pipeline.VLAN)}}, 0},
		{"a provider", drivers.Change{Set: []pipeline.Object{served(pipeline.VLAN, "10.1.7.1:8080")}}, 1},
		{"another one", drivers.Change{Set: []pipeline.Object{served(pipeline.VLAN, "10.1.7.1:8080", "10.1.7.2:8080")}}, 1},
		{"none any more", drivers.Change{Set: []pipeline.Object{served(pipeline.VLAN)}}, 0},
		{"in a tunnel", drivers.Change{Set: []pipeline.Object{served(pipeline.VXLAN, "10.1.7.1:8080")}}, 0},
		{"again", drivers.Change{Set: []pipeline.Object{served(pipeline.VLAN, "10.1.7.2:8080")}}, 1},
		{"gone", drivers.Change{Remove: []pipeline.Key{served(pipeline.VLAN).Key()}}, 0},
		{"again", drivers.Change{Set: []pipeline.Object{served(pipeline.VLAN, "10.1.7.2:8080")}}, 1},
		{"not in a new state", drivers.Change{Replace: true, Set: providers()}, 0},
	} {
		border.Update(step.change)
		border.announceServed(t.Context())
		if got := announced(border) - len(providers()); got != step.want {
			t.Errorf("%s: %d prefixes are announced, want %d", step.what, got, step.want)
		}
	}
}

// providers returns two endpoints of this node.
func providers() []pipeline.Object {
	return []pipeline.Object{
		pipeline.Endpoint{ID: "one", Encap: pipeline.VLAN, Local: true, IPv4: addr("10.1.7.1")},
		pipeline.Endpoint{ID: "two", Encap: pipeline.VLAN, Local: true, IPv4: addr("10.1.7.2")},
	}
}

// withProviders returns a border that announces them.
func withProviders(t *testing.T) *Border {
	t.Helper()
	border := New(Config{Driver: &portDriver{ports: []string{"one", "two"}}, StateFile: filepath.Join(t.TempDir(), "routes.json")})
	border.Update(drivers.Change{Replace: true, Set: providers()})
	border.announceServed(t.Context())
	return border
}

// announced returns the number of announced prefixes.
func announced(border *Border) int {
	border.speaker.Configure(&bgp.Settings{})
	defer border.speaker.Configure(nil)
	return border.speaker.Counts().Announced
}

// Services may share an address, such as a load balancer's with a port each.
func TestAnAddressIsAnnouncedForTheLastServiceThatHasIt(t *testing.T) {
	border := withProviders(t)
	service := func(id string) pipeline.Object {
		return pipeline.Service{ID: id, Encap: pipeline.VLAN, Ports: []pipeline.ServicePort{{
			Address: addr("10.1.7.200"), From: pipeline.FromOutside, Protocol: 6, Port: 80, Serving: []netip.AddrPort{netip.MustParseAddrPort("10.1.7.1:8080")},
		}}}
	}
	web, mail := service("web:blue"), service("mail:blue")
	for _, step := range []struct {
		what   string
		change drivers.Change
		want   int
	}{
		{"two", drivers.Change{Set: []pipeline.Object{web, mail}}, 1},
		{"one is set again", drivers.Change{Set: []pipeline.Object{mail}}, 1},
		{"one goes", drivers.Change{Remove: []pipeline.Key{web.Key()}}, 1},
		{"the other goes, and one comes", drivers.Change{Set: []pipeline.Object{web}, Remove: []pipeline.Key{mail.Key()}}, 1},
		{"both are in a new state", drivers.Change{Replace: true, Set: append(providers(), web, mail)}, 1},
		{"one is in a new state", drivers.Change{Replace: true, Set: append(providers(), mail)}, 1},
		{"the last one goes", drivers.Change{Remove: []pipeline.Key{mail.Key()}}, 0},
	} {
		border.Update(step.change)
		border.announceServed(t.Context())
		if got := announced(border) - len(providers()); got != step.want {
			t.Errorf("%s: %d prefixes are announced, want %d", step.what, got, step.want)
		}
	}
}
