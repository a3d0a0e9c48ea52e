package bgp

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/test/testkit"
)

// waits makes some calls of wait at once, and returns a channel with a value for each that has returned.
func waits(p *pace, times int) <-chan struct{} {
	over := make(chan struct{}, times)
	for range times {
		go func() {
			p.wait()
			over <- struct{}{}
		}()
	}
	return over
}

// changes returns paths of a neighbour.
func changes(neighbour netip.Addr, number int) []*apiutil.Path {
	return slices.Repeat([]*apiutil.Path{{PeerAddress: neighbour}}, number)
}

func TestNeighboursWaitWhileChangesWaitTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, a := newPace(testkit.Quiet()), addr("192.0.2.1")
		now := time.Now
		p.processed(changes(a, 1), now())
		asked := now()
		<-waits(p, 1)
		if took := now().Sub(asked); took > 0 {
			t.Errorf("a neighbour waited for %s while nothing was late", took)
		}

		begun := now()
		p.processed(changes(a, 1), now().Add(-2*longWait))
		over := waits(p, 3)
		for i := range 2 {
			<-over
			// A waiting caller checks each idleTime whether it is longer since the last change, or since a caller was
			// released.
			if took, want := now().Sub(begun), time.Duration(i+1)*2*idleTime; took != want {
				t.Errorf("nothing is taken in, and %d of 3 were read on after %s, want %s", i+1, took, want)
			}
		}
		if synctest.Wait(); len(over) > 0 {
			t.Error("nothing is taken in, and two were read on at once")
		}
		late := now()
		p.processed(nil, now()) // a change of no best route is processed as well
		<-over
		all := waits(p, 3)
		for range 3 {
			<-all
		}
		if took := now().Sub(late); took > 0 {
			t.Errorf("what is said is taken in, and neighbours waited for %s", took)
		}
	})
}

// Our own routes count for no neighbour.
func TestWhoChangesMostIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, hook := logtest.NewNullLogger()
		p, a, b := newPace(logrus.NewEntry(log)), addr("192.0.2.1"), addr("192.0.2.2")
		late := func() {
			p.processed(changes(a, 1), time.Now().Add(-2*longWait))
			p.processed(changes(a, 1), time.Now())
		}
		p.processed(changes(addr("0.0.0.0"), 2*manyChanges), time.Now())
		time.Sleep(time.Second)
		if late(); len(hook.AllEntries()) > 0 {
			t.Errorf("a neighbour that changes next to nothing is told: %+v", hook.AllEntries())
		}
		p.processed(append(changes(a, 20), changes(b, manyChanges)...), time.Now())
		for range 3 {
			late()
		}
		told := hook.AllEntries()
		if len(told) != 1 || told[0].Data["neighbour"] != b || told[0].Data["changes"] != manyChanges || told[0].Data["in"] != time.Second {
			t.Errorf("%+v", told)
		}
	})
}
