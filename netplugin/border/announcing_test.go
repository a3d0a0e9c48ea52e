package border

import (
	"context"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// slowDriver is a switch that applies changes and removes ports only when the test lets it.
type slowDriver struct {
	drivers.NetworkDriver

	mu      sync.Mutex
	given   map[pipeline.Key]pipeline.Object // to be applied
	has     map[pipeline.Key]pipeline.Object
	refuses map[pipeline.Key]bool
	ports   map[string]uint32
	takes   chan struct{} // closed and replaced whenever changes were applied
	removed chan struct{} // lets a port be removed
}

func newSlowDriver() *slowDriver {
	return &slowDriver{
		given: map[pipeline.Key]pipeline.Object{}, has: map[pipeline.Key]pipeline.Object{}, refuses: map[pipeline.Key]bool{},
		ports: map[string]uint32{}, takes: make(chan struct{}), removed: make(chan struct{}),
	}
}

func (d *slowDriver) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (d *slowDriver) Status() drivers.Status { return drivers.Status{} }

func (d *slowDriver) Update(c drivers.Change) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range c.Remove {
		delete(d.given, key)
	}
	for _, o := range c.Set {
		d.given[o.Key()] = o
	}
}

// take applies all changes.
func (d *slowDriver) take() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.has = maps.Clone(d.given)
	close(d.takes)
	d.takes = make(chan struct{})
}

func (d *slowDriver) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *slowDriver) Sync(ctx context.Context, keys ...pipeline.Key) error {
	for {
		d.mu.Lock()
		if len(keys) == 0 {
			keys = slices.Collect(maps.Keys(d.given))
		}
		there := !slices.ContainsFunc(keys, func(key pipeline.Key) bool {
			is := d.has[key]
			return is == nil || !is.Equal(d.given[key])
		})
		refused := slices.ContainsFunc(keys, func(key pipeline.Key) bool { return d.refuses[key] })
		takes := d.takes
		d.mu.Unlock()
		switch {
		case there && refused:
			return fault.New(fault.Unsupported, "refused")
		case there:
			return nil
		}
		select {
		case <-takes:
		case <-ctx.Done():
			return fault.New(fault.Unavailable, "not yet")
		}
	}
}

func (d *slowDriver) Ports() (list []drivers.Port) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, number := range d.ports {
		list = append(list, drivers.Port{EndpointID: id, OFPort: number})
	}
	return list
}

func (d *slowDriver) AddPort(_ context.Context, _ pipeline.Encap, id string, _ int) (drivers.Port, error) {
	d.set(func() { d.ports[id] = 7 })
	return drivers.Port{}, nil
}

func (d *slowDriver) RemovePort(_ context.Context, id string) error {
	<-d.removed
	d.set(func() { delete(d.ports, id) })
	return nil
}

// onSlowSwitch returns a border that runs on a slow driver, after its first state.
func onSlowSwitch(t *testing.T) (*Border, *slowDriver) {
	t.Helper()
	d := newSlowDriver()
	border := New(Config{Driver: d, StateFile: filepath.Join(t.TempDir(), "routes.json"), Log: testkit.Quiet()})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- border.announce(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	border.Update(drivers.Change{Replace: true})
	return border, d
}

// tells waits until exactly these prefixes are announced.
func tells(t *testing.T, border *Border, what string, want ...string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, what, func() bool { return slices.Equal(told(border), want) })
}

// toldStill expects that exactly these are announced, while nothing happens that could change it.
func toldStill(t *testing.T, border *Border, what string, want ...string) {
	t.Helper()
	if got := told(border); !slices.Equal(got, want) {
		t.Errorf("%s: told %q, want %q", what, got, want)
	}
}

// told returns the prefixes that the speaker announces.
func told(border *Border) (list []string) {
	for _, p := range border.speaker.Announced() {
		list = append(list, p.String())
	}
	return list
}

// shop returns a service that has these providers on this node.
func shop(serving, draining []string) pipeline.Service {
	parse := func(list []string) (all []netip.AddrPort) {
		for _, text := range list {
			all = append(all, netip.MustParseAddrPort(text))
		}
		return all
	}
	return pipeline.Service{ID: "shop:blue", Encap: pipeline.VLAN, Ports: []pipeline.ServicePort{
		{Address: addr("10.1.7.200"), From: pipeline.FromPods, Protocol: 6, Port: 80, Target: 8080},
		{Address: addr("10.1.7.200"), From: pipeline.FromOutside, Protocol: 6, Port: 80, Serving: parse(serving), Draining: parse(draining)},
	}}
}

const vip, first, second = "10.1.7.200/32", "10.1.7.1/32", "10.1.7.2/32"

// A router sends packets as soon as an address is announced: a switch without its flows would drop or refuse them.
func TestRoutersAreToldWhenTheSwitchIsReady(t *testing.T) {
	border, d := onSlowSwitch(t)
	d.set(func() { d.ports["one"], d.ports["two"] = 1, 2 })
	border.Update(drivers.Change{Set: []pipeline.Object{providers()[0]}})
	toldStill(t, border, "an endpoint whose flows are on their way")
	d.take()
	tells(t, border, "an endpoint whose flows are there", first)

	border.Update(drivers.Change{Set: []pipeline.Object{shop([]string{"10.1.7.1:8080"}, nil)}})
	toldStill(t, border, "a service whose flows are on their way", first)
	d.take()
	tells(t, border, "a service whose flows are there", first, vip)

	// It is announced while another provider takes over, and withdrawn before its flows are removed.
	border.Update(drivers.Change{Set: []pipeline.Object{providers()[1]}})
	d.take()
	tells(t, border, "another provider", first, second, vip)
	border.Update(drivers.Change{Set: []pipeline.Object{shop([]string{"10.1.7.2:8080"}, nil)}})
	toldStill(t, border, "the other one alone, on its way", first, second, vip)
	d.take()
	border.Update(drivers.Change{Remove: []pipeline.Key{shop(nil, nil).Key()}})
	toldStill(t, border, "a service that is deleted", first, second)
}

// In a large change a service reaches the switch before its endpoints; and an endpoint that was created for a pod
// may never get its port.
func TestAServiceIsToldWhenAnEndpointServesIt(t *testing.T) {
	border, d := onSlowSwitch(t)
	border.Update(drivers.Change{Set: []pipeline.Object{providers()[0], shop([]string{"10.1.7.1:8080"}, nil)}})
	d.take()
	if !border.announceServed(t.Context()) {
		t.Error("something is waited for that does not tell when it comes")
	}
	toldStill(t, border, "no port")
	if _, err := border.AddPort(t.Context(), pipeline.VLAN, "one", 0); err != nil {
		t.Fatal(err)
	}
	tells(t, border, "a port", first, vip)

	// The addresses of a port are withdrawn before it is removed.
	done := make(chan error, 1)
	go func() { done <- border.RemovePort(t.Context(), "one") }()
	tells(t, border, "a port that goes")
	if d.Ports() == nil {
		t.Error("the port was removed before routers were told")
	}
	close(d.removed)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := border.AddPort(t.Context(), pipeline.VLAN, "one", 0); err != nil {
		t.Fatal(err)
	}
	tells(t, border, "another port", first, vip)
}

// interrupted is a switch on which happens runs when its ports are read for the second time: after its state is
// known.
type interrupted struct {
	*slowDriver
	looks   int
	happens func()
}

func (d *interrupted) Ports() []drivers.Port {
	if d.looks++; d.looks == 2 {
		d.happens()
	}
	return d.slowDriver.Ports()
}

// Removed pods of tunnelled networks do not delay announcements.
func TestPortsOfOtherNetworksThatGoHoldNothingUp(t *testing.T) {
	d := &interrupted{slowDriver: newSlowDriver()}
	close(d.removed)
	border := New(Config{Driver: d, StateFile: filepath.Join(t.TempDir(), "routes.json"), Log: testkit.Quiet()})
	d.ports["one"], d.ports["tunnelled"] = 1, 2
	border.Update(drivers.Change{Replace: true, Set: []pipeline.Object{providers()[0], shop([]string{"10.1.7.1:8080"}, nil)}})
	d.take()
	d.happens = func() {
		if err := border.RemovePort(t.Context(), "tunnelled"); err != nil {
			t.Error(err)
		}
	}
	if !border.announceServed(t.Context()) || !slices.Contains(told(border), vip) {
		t.Errorf("told %q", told(border))
	}
}

// A service that was removed from the switch meanwhile is not announced when it is added again, but once the
// switch has it.
func TestWhatGoesAndComesAgainIsToldWhenItIsThere(t *testing.T) {
	d := &interrupted{slowDriver: newSlowDriver()}
	border := New(Config{Driver: d, StateFile: filepath.Join(t.TempDir(), "routes.json"), Log: testkit.Quiet()})
	d.ports["one"] = 1
	serves := shop([]string{"10.1.7.1:8080"}, nil)
	border.Update(drivers.Change{Replace: true, Set: []pipeline.Object{providers()[0], serves}})
	d.take()
	d.happens = func() {
		border.Update(drivers.Change{Set: []pipeline.Object{shop(nil, nil)}})
		d.take()
		border.Update(drivers.Change{Set: []pipeline.Object{serves}})
	}
	border.announceServed(t.Context())
	if got := told(border); slices.Contains(got, vip) {
		t.Errorf("a service that is not in the switch any more, nor yet: told %q", got)
	}
	d.take()
	border.announceServed(t.Context())
	toldStill(t, border, "it is there again", first, vip)
}

// The switch has the flows of the prefixes that an earlier run has announced, and of no others, even if they are
// addresses of the same object.
func TestWhatIsNewAfterARestartIsToldWhenItIsThere(t *testing.T) {
	d := newSlowDriver()
	border := New(Config{Driver: d, StateFile: filepath.Join(t.TempDir(), "routes.json"), Log: testkit.Quiet()})
	d.ports["one"] = 1
	earlier := []netip.Prefix{netip.MustParsePrefix(first), netip.MustParsePrefix(vip)}
	border.outer.setAnnounced(earlier)
	border.speaker.Announce(earlier, nil)
	pod, serves := providers()[0].(pipeline.Endpoint), shop([]string{"10.1.7.1:8080"}, nil)
	pod.IPv6 = addr("fd00:7::1")
	serves.Ports = append(serves.Ports, pipeline.ServicePort{
		Address: addr("fd00:7::200"), From: pipeline.FromOutside, Protocol: 6, Port: 80, Serving: []netip.AddrPort{netip.MustParseAddrPort("[fd00:7::1]:8080")},
	})
	border.Update(drivers.Change{Replace: true, Set: []pipeline.Object{pod, serves}})
	toldStill(t, border, "what the switch has of the earlier run", first, vip)
	d.take()
	border.announceServed(t.Context())
	toldStill(t, border, "all is there", first, vip, "fd00:7::1/128", "fd00:7::200/128")
}

// An object that the switch refuses does not delay the announcement of others.
func TestWhatTheSwitchRefusesIsNotTold(t *testing.T) {
	border, d := onSlowSwitch(t)
	bad := providers()[0]
	d.set(func() {
		d.ports["one"], d.ports["two"] = 1, 2
		d.refuses[bad.Key()] = true
	})
	border.Update(drivers.Change{Set: providers()})
	d.take()
	tells(t, border, "the other one", second)
	d.set(func() { clear(d.refuses) })
	if !border.announceServed(t.Context()) {
		t.Error("something is left")
	}
	tells(t, border, "when it is taken after all", first, second)
}

// Routers process the withdrawal of a service a moment after it is sent.
func TestWhoDrainsServesMachinesOutsideUntilTheyMayKnow(t *testing.T) {
	border, d := onSlowSwitch(t)
	d.set(func() { d.ports["one"] = 1 })
	serves := shop([]string{"10.1.7.1:8080"}, nil)
	border.Update(drivers.Change{Set: []pipeline.Object{providers()[0], serves}})
	d.take()
	tells(t, border, "it serves", first, vip)
	drains := shop(nil, []string{"10.1.7.1:8080"})
	border.Update(drivers.Change{Set: []pipeline.Object{drains}})
	toldStill(t, border, "it drains", first)
	is := func(what string, want pipeline.Service) {
		t.Helper()
		d.set(func() {
			if got := d.given[want.Key()]; got == nil || !got.Equal(want) {
				t.Errorf("%s: the switch has %v, want %v", what, got, want)
			}
		})
	}
	is("at first", serves)
	border.stopServing(time.Now().Add(lingerTime / 2))
	is("for a moment", serves)
	serves.Affinity, drains.Affinity = 60, 60
	for _, change := range []drivers.Change{{Set: []pipeline.Object{drains}}, {Replace: true, Set: []pipeline.Object{providers()[0], drains}}} {
		border.Update(change)
		is("also when something else of it changes", serves)
	}
	border.stopServing(time.Now().Add(lingerTime))
	is("afterwards", drains)

	border.Update(drivers.Change{Set: []pipeline.Object{serves}})
	d.take()
	tells(t, border, "it serves again", first, vip)
	border.Update(drivers.Change{Set: []pipeline.Object{drains}})
	border.Update(drivers.Change{Set: []pipeline.Object{serves}})
	border.stopServing(time.Now().Add(lingerTime))
	is("what it has become meanwhile", serves)
	border.Update(drivers.Change{Set: []pipeline.Object{shop(nil, nil)}})
	is("nobody is left", shop(nil, nil))
}
