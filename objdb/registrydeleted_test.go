package objdb

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Somebody deletes keys of the registry while the daemons run: a node that is not registered is given up in the end,
// and its endpoints are freed, although it forwards.
func TestAnAnnouncementThatSomebodyDeletesIsPutAgain(t *testing.T) {
	t.Parallel() // it mostly waits
	db := newDB(t)
	r := register(t, db, time.Minute, master("follower"), vtep(4789))
	announced(t, db, "netmaster", master("follower"))
	announced(t, db, "netplugin.vtep", vtep(4789))
	for range 2 {
		lease := leasesOf(t, db)
		del(t, db, vtep(4789).Key())
		announced(t, db, "netplugin.vtep", vtep(4789))
		del(t, db, vtep(4789).Key(), master("follower").Key())
		announced(t, db, "netplugin.vtep", vtep(4789))
		announced(t, db, "netmaster", master("follower"))
		if now := leasesOf(t, db); !cmp.Equal(now, lease) {
			t.Errorf("leases %x, before %x", now, lease)
		}
	}
	r.Update(master("leader"))
	announced(t, db, "netplugin.vtep")
	announced(t, db, "netmaster", master("leader"))
}

// The later one of two hosts with one address has it, as long as it lives.
func TestTwoHostsWithOneAddressDoNotDeleteEachOther(t *testing.T) {
	t.Parallel() // it mostly waits
	db := newDB(t)
	register(t, db, time.Minute, vtep(4789))
	announced(t, db, "netplugin.vtep", vtep(4789))
	other := vtep(4789)
	other.Hostname = "node2"
	r := register(t, db, time.Minute, other)
	announced(t, db, "netplugin.vtep", other)
	first, err := db.Get(t.Context(), other.Key())
	if err != nil {
		t.Fatal(err)
	}
	client, err := db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*RetryMost)
	defer cancel()
	for resp := range client.Watch(ctx, other.Key(), clientv3.WithRev(first.ModRevision+1)) {
		for _, event := range resp.Events {
			t.Errorf("the other one's key: %s", event)
		}
	}
	withdraw(t, r)
	announced(t, db, "netplugin.vtep", vtep(4789))
}
