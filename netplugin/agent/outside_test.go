package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// expectWait checks whether the Outside waits for an endpoint's port.
func (r *running) expectWait(t *testing.T, why string, want bool) {
	t.Helper()
	if wait, err := r.OutsideWaits(t.Context()); wait != want || err != nil {
		t.Errorf("%s: waits %v, %v; want %v", why, wait, err, want)
	}
}

// woken reports whether the manager of the host's interfaces was notified.
func (r *running) woken() bool {
	select {
	case <-r.HostChanged():
		return true
	default:
		return false
	}
}

func TestTheWayOutComesWithTheNextEndpointWhereEndpointsAreAlready(t *testing.T) {
	store := newEtcd(t).start()
	store.put(blueState...)
	earlier := newRecorder() // of an agent without an Outside
	a := startAgent(t, store.db, earlier)
	a.awaitReady(t)
	a.expectWait(t, "no endpoint", false)
	if _, err := a.PreparePort(t.Context(), "web.blue-1", 0); err != nil {
		t.Fatal(err)
	}
	a.expectWait(t, "an endpoint that came now", false)
	a.stop()

	driver := earlier.restarted()
	a = startAgent(t, store.db, driver)
	if _, err := a.OutsideWaits(t.Context()); err != nil && !fault.Is(err, fault.Unavailable) {
		t.Error(err)
	}
	a.awaitReady(t)
	eventually(t, "it waits where an endpoint is already", func() error {
		if wait, err := a.OutsideWaits(t.Context()); !wait || err != nil {
			return fmt.Errorf("waits %v, %w", wait, err)
		}
		return nil
	})
	a.woken() // of the snapshot
	if _, err := a.PreparePort(t.Context(), "web.blue-1", 0); err != nil {
		t.Fatal(err)
	}
	if a.woken() {
		t.Error("a port that was there is no new one")
	}
	if _, err := a.PreparePort(t.Context(), "web.blue-3", 0); err != nil {
		t.Fatal(err)
	}
	if !a.woken() {
		t.Error("nobody is told of the next endpoint")
	}
	a.expectWait(t, "the next endpoint", false)
	a.woken() // of other changes meanwhile
	if _, err := a.PreparePort(t.Context(), "web.blue-4", 0); err != nil {
		t.Fatal(err)
	}
	if a.woken() {
		t.Error("nobody waits, and is woken")
	}
	if _, err := a.PrepareOutside(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.stop()

	a = startAgent(t, store.db, driver.restarted())
	a.awaitReady(t)
	a.expectWait(t, "its port is there", false)
}

// Opening the Outside may be delayed, as by nft, for longer than a port without an owner is kept: endpoints use it
// meanwhile, as before the agent's restart. It is removed once it is no longer configured.
func TestTheWayOutOfAnEarlierAgentStaysUntilItIsOpenedAgain(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	store.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing","pvt-subnet":"172.19.0.0/16"}`)
	for _, id := range []string{OutsideID, "web.blue-gone"} {
		driver.ports[id] = drivers.Port{EndpointID: id}
	}
	startAgent(t, store.db, driver, func(c *Config) {
		c.Outside, c.ReapInterval, c.ReapGrace = true, 5*time.Millisecond, 20*time.Millisecond
	})
	expectPorts(t, driver, "what nobody owns is removed, and nothing else", OutsideID)
	awaitLooks(t, driver)
	expectPorts(t, driver, "the way out stays", OutsideID)
	store.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing"}`)
	expectPorts(t, driver, "there is none any more")
}
