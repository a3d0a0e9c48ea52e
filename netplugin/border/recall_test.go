package border

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

func TestRoutesAreRecalledWhileTheyAreYoung(t *testing.T) {
	testkit.NeedsMachine(t)
	alone(t, func() {
		file := filepath.Join(t.TempDir(), "routes.json")
		text := `{"Routes":[{"Prefix":"198.51.100.0/24","Neighbour":"192.0.2.1","NextHop":"192.0.2.1"}]}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run := func() *Border { return New(Config{Driver: &portDriver{}, StateFile: file}) }
		recalled := func(b *Border) int {
			b.Configure(&agent.BGP{Link: prefix("192.0.2.9/24")})
			return len(b.rib.learned)
		}
		if recalled(run()) != 0 {
			t.Error("without the interface, as after a boot")
		}
		sh(t, `ip link add inb01 type veth peer name outside; ip link set inb01 up; ip address add 192.0.2.9/24 dev inb01`)
		if recalled(run()) != 1 {
			t.Error("nothing of a moment ago")
		}
		for _, age := range []time.Duration{time.Hour, -time.Hour} {
			then := time.Now().Add(-age)
			if err := os.Chtimes(file, then, then); err != nil {
				t.Fatal(err)
			}
			if recalled(run()) != 0 {
				t.Errorf("routes of %s ago", age)
			}
			waits := run() // for the store, and routes get no younger meanwhile
			waits.resumeSpeaking()
			waits.touchSaved()
			if recalled(waits) != 0 || recalled(run()) != 0 {
				t.Errorf("routes of %s ago, after a look", age)
			}
			if err := os.Chtimes(file, time.Now(), time.Now()); err != nil {
				t.Fatal(err)
			}
			if recalled(waits) != 0 {
				t.Error("routes of another run that this one has begun without")
			}
		}
		goesOn := run()
		recalled(goesOn)
		goesOn.saveRoutes()
		then := time.Now().Add(-time.Hour)
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
		goesOn.touchSaved()
		if recalled(run()) != 1 {
			t.Error("nothing of a run that went on until now")
		}
		goesOn.unsaved.Store(true)
		if err := os.Chtimes(file, then, then); err != nil {
			t.Fatal(err)
		}
		goesOn.touchSaved()
		if recalled(run()) != 0 {
			t.Error("routes that are not those in use any more")
		}
	})
}

// A disk that is full for a while does not make the next run begin with outdated routes.
func TestWhatCouldNotBeKeptIsKeptWhenItCan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "border")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	log, hook := logtest.NewNullLogger()
	border := New(Config{Driver: &portDriver{}, StateFile: filepath.Join(dir, "routes.json"), Log: logrus.NewEntry(log)})
	border.Configure(nil)
	for range 3 {
		border.saveRoutes()
		border.keepNext = time.Time{}
	}
	if told := len(hook.AllEntries()); told != 1 {
		t.Errorf("told %d times that it cannot be kept", told)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	border.saveRoutes()
	if _, err := os.Stat(border.cfg.StateFile); err != nil {
		t.Error(err)
	}
}

// The store may be away for longer than neighbours wait for a node that restarts.
func TestBGPGoesOnBeforeItIsKnownWhatIsWanted(t *testing.T) {
	testkit.NeedsMachine(t)
	alone(t, func() {
		file := filepath.Join(t.TempDir(), "routes.json")
		endpoint := func(id byte) pipeline.Endpoint {
			return pipeline.Endpoint{ID: string('a' + id), Encap: pipeline.VLAN, Local: true, IPv4: netip.AddrFrom4([4]byte{10, 1, 1, id})}
		}
		first := New(Config{Driver: &portDriver{ports: []string{"b", "c"}}, StateFile: file})
		wanted := &agent.BGP{AS: 1, Link: prefix("192.0.2.9/24"), Neighbours: []bgp.Neighbour{{Address: addr("192.0.2.1"), AS: 2, Password: "secret", HoldTime: 9 * time.Second}}}
		first.Configure(wanted)
		first.Update(drivers.Change{Replace: true, Set: []pipeline.Object{endpoint(1), endpoint(2)}})
		first.announceServed(t.Context())
		first.saveRoutes()

		next := New(Config{Driver: &portDriver{ports: []string{"c", "d", "e"}}, StateFile: file})
		next.resumeSpeaking()
		if next.wanted != nil {
			t.Error("without the interface")
		}
		sh(t, `ip link add inb01 type veth peer name outside; ip link set inb01 up; ip address add 192.0.2.9/24 dev inb01`)
		next.resumeSpeaking()
		if c := next.speaker.Counts(); !reflect.DeepEqual(next.wanted, wanted) || c.Neighbours != 1 || c.Announced != 2 {
			t.Errorf("wanted %+v, %+v", next.wanted, c)
		}
		next.Configure(wanted)
		next.Update(drivers.Change{Replace: true, Set: []pipeline.Object{endpoint(2), endpoint(3), endpoint(4)}})
		if c := next.speaker.Counts(); c.Announced != 1 {
			t.Errorf("once it is known what there is, and the switch has what it had: %+v", c)
		}
		next.announceServed(t.Context())
		if c := next.speaker.Counts(); c.Announced != 3 {
			t.Errorf("when the switch has all of it: %+v", c)
		}

		late := New(Config{Driver: &portDriver{}, StateFile: file})
		late.Configure(nil)
		if late.resumeSpeaking(); late.wanted != nil {
			t.Error("what was wanted comes before what is")
		}
	})
}
