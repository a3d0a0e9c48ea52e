package embedded_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/internal/testdb"
	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func growing(t *testing.T, name string) embedded.Config {
	return embedded.Config{Dir: t.TempDir(), Name: name, ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), Grows: true, NoFsync: true, Log: testkit.Quiet()}
}

// voting waits until a store has count members, each with a vote.
func voting(t *testing.T, db *objdb.DB) {
	t.Helper()
	testkit.Eventually(t, time.Minute, "the members have a vote", func() bool {
		waiting, err := db.PromoteMembers(t.Context())
		return err == nil && !waiting
	})
}

// One member founds the store, two are added while it runs, before either of them is started; then any one of them
// may be stopped. Each is restarted from its data.
func TestAStoreGrowsFromOneMemberToThree(t *testing.T) {
	a := growing(t, "a")
	if err := a.Found(); err != nil || !a.Founds() {
		t.Fatalf("not noted: %v", err)
	}
	members := map[string]*embedded.Server{"a": start(t, within(time.Minute), a)}
	testetcd.Ready(t, members["a"])
	if a.Founds() {
		t.Error("it founds the store although that is there")
	}
	db := connect(t, a.ClientURL)
	testdb.Put(t, db, "/x/a", "1")
	cfgs := map[string]embedded.Config{"a": a, "b": growing(t, "b"), "c": growing(t, "c")}
	for _, name := range []string{"b", "c", "b", "c"} { // repeated, with the same result
		cfg := cfgs[name]
		peers, err := db.AddMember(t.Context(), name, cfg.PeerURL)
		if err != nil || peers[name] != cfg.PeerURL || peers["a"] != a.PeerURL {
			t.Fatalf("%s: %v, %v", name, peers, err)
		}
		cfg.Peers = peers
		cfgs[name] = cfg
	}
	for _, name := range []string{"b", "c"} {
		members[name] = start(t, within(time.Minute), cfgs[name])
		testetcd.Ready(t, members[name])
	}
	voting(t, db)
	if learners, err := db.Learners(t.Context()); err != nil || len(learners) > 0 {
		t.Errorf("learners %v, %v", learners, err)
	}
	if _, err := db.AddMember(t.Context(), "b", cfgs["b"].PeerURL); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "etcdctl member remove") {
		t.Errorf("a member whose data is lost is added again: %v", err)
	}
	for _, name := range []string{"a", "b", "c"} {
		has(t, connect(t, cfgs[name].ClientURL), "/x/a", "1")
		testetcd.Stop(t, members[name])
		rest := trying(t, cfgs["a"].ClientURL, cfgs["b"].ClientURL, cfgs["c"].ClientURL)
		testkit.Eventually(t, time.Minute, "writes go on without "+name, func() bool { return put(rest, "1") == nil })
		cfg := cfgs[name]
		cfg.Peers = nil // its data decides
		members[name] = start(t, within(time.Minute), cfg)
		testetcd.Ready(t, members[name])
	}
}

// An added member that has not started yet does not hinder the others.
func TestAMemberThatNeverComesHasNoVote(t *testing.T) {
	a := growing(t, "a")
	testetcd.Ready(t, start(t, within(time.Minute), a))
	db := connect(t, a.ClientURL)
	url := testkit.FreeURL()
	if _, err := db.AddMember(t.Context(), "b", url); err != nil {
		t.Fatal(err)
	}
	if learners, err := db.Learners(t.Context()); err != nil || !slices.Equal(learners, []string{url}) {
		t.Errorf("learners %v, %v", learners, err)
	}
	if waiting, err := db.PromoteMembers(t.Context()); err != nil || !waiting {
		t.Errorf("waiting %v, %v", waiting, err)
	}
	testdb.Put(t, db, "/x/a", "1")
}

// A member at a loopback address could not be reached by a member on another machine.
func TestAMemberAtLoopbackGetsNoneOnAnotherMachine(t *testing.T) {
	a := growing(t, "a")
	testetcd.Ready(t, start(t, within(time.Minute), a))
	db := connect(t, a.ClientURL)
	for range 2 {
		if _, err := db.AddMember(t.Context(), "b", "http://192.0.2.2:2380"); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), a.PeerURL) {
			t.Errorf("added: %v", err)
		}
	}
	if learners, err := db.Learners(t.Context()); err != nil || len(learners) > 0 {
		t.Errorf("learners %v, %v", learners, err)
	}
}

// The other members learn the new peer URL of a member that was started with another one.
func TestAMemberPublishesItsPeerURL(t *testing.T) {
	c := newTrio(t)
	cfg := c.cfgs["c"]
	testetcd.Stop(t, c.members["c"])
	cfg.PeerURL, cfg.Grows, cfg.Peers = testkit.FreeURL(), true, nil
	c.members["c"] = start(t, within(time.Minute), cfg)
	testetcd.Ready(t, c.members["c"])
	for range 2 {
		if err := c.members["c"].PublishPeerURL(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	testetcd.Stop(t, c.members["a"])
	testkit.Eventually(t, time.Minute, "the other two are a majority", func() bool { return put(trying(t, c.cfgs["b"].ClientURL), "1") == nil })
}

// The founding record is removed once the store exists, however long its start took: otherwise a member that later
// loses its data would found another store.
func TestAStoreThatStartsSlowlyIsFoundedOnce(t *testing.T) {
	a := growing(t, "a")
	if err := a.Found(); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithCancel(t.Context())
	cancel()
	s := start(t, soon, a)
	testetcd.Ready(t, s)
	testkit.Eventually(t, time.Minute, "the note has ended", func() bool {
		text, err := os.ReadFile(filepath.Join(a.Dir, "founded.json"))
		return err == nil && !strings.Contains(string(text), "founding")
	})
}
