package agent

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

func TestEndpointsInNobodysHandsAreFound(t *testing.T) {
	store, driver := newEtcd(t).start(), newRecorder()
	store.put(blueState...)
	a := startAgent(t, store.db, driver, soon)
	a.awaitReady(t)
	unclaimed := func() (ids []string) {
		for _, at := range a.Unclaimed(func(string) bool { return false }) {
			ids = append(ids, at.Endpoint.ID)
		}
		return ids
	}
	eventually(t, "the endpoint of this node is found", func() error {
		if got := unclaimed(); !slices.Equal(got, []string{"web.blue-1"}) {
			return fmt.Errorf("unclaimed: %q", got)
		}
		return nil
	})
	attachBlue(t, a)
	if got := unclaimed(); len(got) > 0 {
		t.Errorf("attached and unclaimed: %q", got)
	}
}

// Records deleted since a backup return when it is restored, and their addresses may belong to other endpoints by
// now.
func TestEndpointsThatCameBackWithABackupAreFoundAtOnce(t *testing.T) {
	store := newEtcd(t).start()
	store.put(blueState...)
	store.put(epKey("web.blue-8"), epValue("web.blue", me, "10.1.0.8"), epKey("web.blue-9"), epValue("web.blue", "elsewhere", "10.1.0.9"))
	a := startAgent(t, store.db, newRecorder())
	a.awaitReady(t)
	attachBlue(t, a)
	backup := store.backup()
	went := store.del(epKey("web.blue-8"), epKey("web.blue-9"))
	eventually(t, "the deletion is seen", func() error { return a.mirrors[0].WaitRevision(t.Context(), went) })
	store.put(epKey("web.blue-7"), epValue("web.blue", me, "10.1.0.8"))
	store.restore(backup)
	eventually(t, "the endpoint of this node that nobody has is found", func() error {
		var found []string
		for _, at := range a.Unclaimed(func(string) bool { return false }) {
			found = append(found, at.Endpoint.ID)
		}
		if !slices.Equal(found, []string{"web.blue-8"}) {
			return fmt.Errorf("unclaimed: %q", found)
		}
		return nil
	})
}

// A backup without an endpoint is restored, and later another one, which has it. The endpoint is found unclaimed
// at once, too: the agent kept it for a while, in case of a late announcement, but that does not mean that it was
// in the store.
func TestEndpointsThatWereLostAndCameBackAreFoundAtOnce(t *testing.T) {
	store := newEtcd(t).start()
	store.put(blueState...)
	a := startAgent(t, store.db, newRecorder())
	a.awaitReady(t)
	attachBlue(t, a)
	without := store.backup()
	made := store.put(epKey("web.blue-8"), epValue("web.blue", me, "10.1.0.8"))
	eventually(t, "the endpoint is known", func() error { return a.mirrors[0].WaitRevision(t.Context(), made) })
	with := store.backup()
	isAbsent := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		_, absent := a.held.absent[epKey("web.blue-8")]
		return absent
	}
	store.restore(without)
	eventually(t, "it is kept, though the store lacks it", func() error {
		if !isAbsent() {
			return errors.New("it is not noted as absent")
		}
		return nil
	})
	// Other writes follow. Otherwise the later backup would continue where the store is, and look like one more
	// change.
	var went int64
	for i := range 5 {
		went = store.put(epKey("web.blue-9"), epValue("web.blue", "elsewhere", fmt.Sprint("10.1.0.", 90+i)))
	}
	eventually(t, "what happens after that is seen", func() error { return a.mirrors[0].WaitRevision(t.Context(), went) })
	store.restore(with)
	eventually(t, "the endpoint of this node that nobody has is found", func() error {
		if found := a.Unclaimed(func(string) bool { return false }); len(found) != 1 || found[0].Endpoint.ID != "web.blue-8" {
			return fmt.Errorf("unclaimed: %v; absent: %t", found, isAbsent())
		}
		return nil
	})
}

// A copy of a node's disk has the boots of the node, and the same label.
func TestEndpointsOfAnEndedBootAreFoundAtOnceUnlessANodeHasATwin(t *testing.T) {
	store := newEtcd(t).start()
	store.put(blueState...)
	own, twin := vtepKey("192.0.2.1"), vtepKey("192.0.2.7")
	store.put(own, vtepValue(me, "192.0.2.1"))
	a := startAgent(t, store.db, newRecorder())
	a.awaitReady(t)
	found := func() int { return len(a.Unclaimed(func(boot string) bool { return boot == "" })) }
	if found() != 1 {
		t.Error("an endpoint of an ended boot waits")
	}
	if left := a.Unclaimed(func(string) bool { return false }); len(left) > 0 {
		t.Errorf("unclaimed for long: %v", left)
	}
	duplicate := func() bool { a.mu.Lock(); defer a.mu.Unlock(); return a.cache.hasDuplicateLabel() }
	store.put(twin, vtepValue(me, "192.0.2.7"))
	eventually(t, "there is a twin", func() error {
		if !duplicate() {
			return errors.New("none is known")
		}
		return nil
	})
	if found() > 0 {
		t.Error("found although another node with the label is registered")
	}
	store.del(twin)
	eventually(t, "the twin is gone", func() error {
		if duplicate() {
			return errors.New("it is registered")
		}
		return nil
	})
	if found() > 0 {
		t.Error("found although the other one's agent may be started again")
	}
}
