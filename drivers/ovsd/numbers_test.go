package ovsd

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/test/ovstest"
)

// databaseOf follows the database of a switch until the test ends.
func databaseOf(t *testing.T, s *ovstest.Switch) *database {
	t.Helper()
	db, err := newDatabase(Config{RunDir: s.RunDir, Bridge: DefaultBridge, Log: logrus.NewEntry(logrus.New())}, func() {})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- db.client.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the database's client returned %v", err)
		}
	})
	db.await(t, "its lock is ours", db.client.Owner)
	return db
}

func (db *database) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := db.client.Wait(ctx, func() (bool, error) { return holds(), nil }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// addPorts writes the rows of endpoints' ports into a bridge.
func (db *database) addPorts(t *testing.T, bridge string, numbers ...uint32) {
	t.Helper()
	row, ok := db.bridgeNamed.Row(bridge)
	if !ok {
		t.Fatalf("there is no bridge %s", bridge)
	}
	var ops []ovsdb.Operation
	var ports []ovsdb.UUID
	for _, n := range numbers {
		link, port := fmt.Sprint("link", n), fmt.Sprint("port", n)
		ids := map[string]string{idEndpoint: fmt.Sprint("e", n)}
		ops = append(ops,
			ovsdb.Insert("Interface", link, ovsdb.Row{"name": hostLinkName(n), "external_ids": ids}),
			ovsdb.Insert("Port", port, ovsdb.Row{"name": hostLinkName(n), "interfaces": ovsdb.UUID(link), "external_ids": ids}))
		ports = append(ports, ovsdb.UUID(port))
	}
	ops = append(ops, ovsdb.Mutate("Bridge", ovsdb.Where("_uuid", row.UUID), ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: ports}))
	if _, err := db.client.Transact(t.Context(), ops...); err != nil {
		t.Fatal(err)
	}
	db.await(t, "the ports are there", func() bool {
		port, ok := db.portNamed.Row(hostLinkName(numbers[len(numbers)-1]))
		return ok && db.own.has(port.UUID) == (bridge == db.bridge)
	})
}

func upTo(last uint32) (all []uint32) {
	for n := range last {
		all = append(all, n+1)
	}
	return all
}

// Searching a thousand ports for each new one would copy their rows, a quarter of a megabyte.
func TestANumberIsFoundWithoutALookAtAllPorts(t *testing.T) {
	const ports, takes, enough = 1000, 20, 16 << 10 // bytes for each
	s := ovstest.Start(t)
	s.AddBridge(DefaultBridge)
	s.KillVswitchd() // the links of these ports do not exist
	db := databaseOf(t, s)
	db.addPorts(t, DefaultBridge, upTo(ports)...)
	n := numbers{}
	n.startAfter(db)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range takes {
		number, err := n.take(db)
		if err != nil || number <= ports {
			t.Fatalf("number %d, %v", number, err)
		}
		n.release(number)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / takes; each > enough {
		t.Errorf("each number costs %d bytes beside %d ports, want %d at most", each, ports, enough)
	}
}

func TestMetersAreSharedWhereTheyMustBe(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge(DefaultBridge)
	s.AddBridge(DefaultUplinkBridge)
	s.KillVswitchd()
	db := databaseOf(t, s)
	n := numbers{last: 1023}
	next := func(what string, want uint32) {
		t.Helper()
		if got, err := n.take(db); err != nil || got != want {
			t.Errorf("%s: number %d, %v, want %d", what, got, err, want)
		}
	}
	db.addPorts(t, DefaultUplinkBridge, upTo(1)...)
	next("a port of another bridge has the meters of 1025, another one those of 1024", 1024)
	next("no port of this bridge has those", 1025)
	next("nobody has these", 1026)
	n.last = 1
	next("one that is being made has the meters of 2", 3)
	for number := range uint32(1030) {
		n.release(number)
	}
	db.addPorts(t, DefaultBridge, upTo(1025)[2:]...)
	n.last = 5000
	next("nobody has the meters of 2", 5122)
	next("all are somebody's", 5123)
}
