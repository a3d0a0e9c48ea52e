package bgp

import (
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/test/testkit"
)

// waits begins to wait some times at once, and returns what has a value for each that is over.
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

func TestNeighboursWaitWhileChangesWaitTooLong(t *testing.T) {
	p, a := newPace(testkit.Quiet()), addr("192.0.2.1")
	now := time.Now
	p.take(a, 1, now())
	<-waits(p, 1) // not at all

	begun := now()
	p.take(a, 1, now().Add(-2*longWait))
	over := waits(p, 3)
	<-over
	<-over
	if took := now().Sub(begun); took < 2*idleTime {
		t.Errorf("nothing is taken in, and two were read on after %s", took)
	}
	p.take(a, 1, now())
	<-over
	<-waits(p, 3)
}

// Ours count for nobody.
func TestWhoChangesMostIsTold(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	p, a, b := newPace(logrus.NewEntry(log)), addr("192.0.2.1"), addr("192.0.2.2")
	p.since = time.Now().Add(-time.Second)
	p.take(a, 20, time.Now())
	p.take(b, 30, time.Now())
	p.take(addr("0.0.0.0"), 100, time.Now())
	for range 3 {
		p.take(a, 1, time.Now().Add(-2*longWait))
		p.take(a, 1, time.Now())
	}
	if told := hook.AllEntries(); len(told) != 1 || told[0].Data["neighbour"] != b || told[0].Data["changes"] != 30 {
		t.Errorf("%+v", told)
	}
}
