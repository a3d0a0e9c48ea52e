package ovsdb

import (
	"testing"

	"github.com/contiv/netplugin/test/testkit"

	"github.com/contiv/netplugin/utils/fault"
)

func lockedClient(t *testing.T, s *server) *Client {
	t.Helper()
	client, err := New(Config{Target: s.target(), Lock: "ours"}, NewTable[bridgeRow]("Bridge", nil))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestTheLockGoesFromOneClientToTheNext(t *testing.T) {
	s := startServer(t)
	first, second := lockedClient(t, s), lockedClient(t, s)
	stop := startClient(t, first)
	testkit.Eventually(t, patience, "the first has the lock", first.Owner)
	startClient(t, second)
	testkit.Eventually(t, patience, "the second waits", second.Excluded)

	if _, err := first.Transact(within(t), Comment("x")); err != nil {
		t.Errorf("owner: %v", err)
	}
	if _, err := second.Transact(within(t), Comment("x")); !fault.Is(err, fault.Conflict) {
		t.Errorf("without the lock: %v", err)
	}
	stop()
	testkit.Eventually(t, patience, "the second has the lock", second.Owner)
	if second.Excluded() || first.Owner() {
		t.Error("two owners")
	}
	if _, err := second.Transact(within(t), Comment("x")); err != nil {
		t.Errorf("new owner: %v", err)
	}
}

func TestAStolenLockIsNoticedAndComesBack(t *testing.T) {
	s := startServer(t)
	client := lockedClient(t, s)
	startClient(t, client)
	testkit.Eventually(t, patience, "it has the lock", client.Owner)
	thief := s.dial(connectionOptions{})
	if err := thief.Call(within(t), "steal", []any{"ours"}, nil); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, "it has noticed", func() bool { return client.Excluded() && !client.Owner() })
	_ = thief.Close()
	testkit.Eventually(t, patience, "it has the lock again", client.Owner)
}

func TestARestartedServerIsAskedForTheLockAgain(t *testing.T) {
	s := startServer(t)
	client := lockedClient(t, s)
	startClient(t, client)
	testkit.Eventually(t, patience, "it has the lock", client.Owner)
	s.kill()
	testkit.Eventually(t, patience, "the client has noticed", func() bool { return !client.Connected() })
	if client.Owner() || client.Excluded() {
		t.Error("without a server nobody has the lock")
	}
	s.start()
	testkit.Eventually(t, patience, "it has the lock again", client.Owner)
}

func TestTheCheckOfTheLockIsNotAmongTheResults(t *testing.T) {
	s := startServer(t)
	client := lockedClient(t, s)
	startClient(t, client)
	testkit.Eventually(t, patience, "it has the lock", client.Owner)
	results, err := client.Transact(within(t), Comment("x"), Select("Bridge", All(), "name"))
	if err != nil || len(results) != 2 {
		t.Errorf("%d results for 2 operations, error %v", len(results), err)
	}
}
