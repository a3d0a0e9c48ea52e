package objdb

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// A registration's request without an answer may take effect late, for example if a member, or a netmaster with
// its gate, was stopped for a while. It must not replace a later announcement.
func TestAnAnnouncementThatArrivesLateDoesNotReplaceTheOneAfterIt(t *testing.T) {
	url := testetcd.New(t)
	near := open(t, Config{Endpoints: []string{url}})
	way, late := keeping(t, url, `"Role":"follower"`)
	r := register(t, open(t, Config{Endpoints: []string{way}}), time.Minute, master("follower"))
	announced(t, near, "netmaster", master("follower"))
	r.Update(master("leader"))
	announced(t, near, "netmaster", master("leader"))
	late()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := testkit.Poll(ctx, func() error {
		got, err := near.Services(ctx, "netmaster")
		if err == nil && (len(got) != 1 || got[0].Role != "leader") {
			t.Logf("registered: %+v", got)
			err = context.DeadlineExceeded
		}
		return err
	}); err != nil {
		t.Error("what was announced first has taken the place of what was announced last, for good")
	}
}

// keeping is a connection to the store that holds the first transaction containing what, without an answer, until
// late has it take effect.
func keeping(t *testing.T, url, what string) (way string, late func()) {
	t.Helper()
	var kept atomic.Pointer[testetcd.Request]
	way = testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		if r.Method == "Txn" && bytes.Contains(r.Body, []byte(what)) && kept.CompareAndSwap(nil, &r) {
			return nil, testetcd.ErrNoAnswer
		}
		return r.Send()
	})
	return way, func() {
		t.Helper()
		r := kept.Load()
		if r == nil {
			t.Fatal("nothing was kept")
		}
		if _, err := r.Send(); err != nil {
			t.Log(err)
		}
	}
}

// Nor may it take effect after its withdrawal, or affect other announcements.
func TestAnAnnouncementThatArrivesLateDoesNotComeAfterItsWithdrawal(t *testing.T) {
	for name, rest := range map[string][]Service{"of all": nil, "of one": {vtep(4789)}} {
		t.Run(name, func(t *testing.T) {
			url := testetcd.New(t)
			near := open(t, Config{Endpoints: []string{url}})
			way, late := keeping(t, url, `"Role":"follower"`)
			r := register(t, open(t, Config{Endpoints: []string{way}}), time.Minute, append(rest, master("follower"))...)
			announced(t, near, "netmaster", master("follower"))
			var made int64 // creation revision of the key that must remain
			if rest != nil {
				kv, err := near.Get(t.Context(), rest[0].Key())
				if err != nil {
					t.Fatal(err)
				}
				made = kv.CreateRevision
			}
			first := leasesOf(t, near)
			r.Update(rest...)
			announced(t, near, "netmaster")
			testkit.Eventually(t, time.Minute, "another lease has taken its place", func() bool {
				now := leasesOf(t, near)
				return len(now) == 1 && now[0] != first[0]
			})
			late()
			announced(t, near, "netmaster")
			announced(t, near, "netplugin.vtep", rest...)
			if rest != nil {
				if kv, err := near.Get(t.Context(), rest[0].Key()); err != nil || kv.CreateRevision != made {
					t.Errorf("it was made at revision %d, and now %+v, %v", made, kv, err)
				}
			}
			r.Update(master("leader"))
			announced(t, near, "netmaster", master("leader"))
			if kvs := leasesOf(t, near); len(kvs) != 1 {
				t.Errorf("leases: %x", kvs)
			}
		})
	}
}

// An announcement that took effect without an answer is withdrawn, too.
func TestAnAnnouncementThatHadNoAnswerIsWithdrawn(t *testing.T) {
	url := testetcd.New(t)
	near := open(t, Config{Endpoints: []string{url}})
	for _, said := range []error{testetcd.ErrNoAnswer, rpctypes.ErrGRPCNoSpace} {
		t.Run(said.Error(), func(t *testing.T) {
			var r *Registration
			var told atomic.Bool
			way := testetcd.NewRelay(t, url, func(q testetcd.Request) ([]byte, error) {
				if q.Method != "Txn" || !bytes.Contains(q.Body, []byte(`"Role":"follower"`)) {
					return q.Send()
				}
				if _, err := q.Send(); err != nil {
					return nil, err
				}
				r.Update(vtep(4789)) // before the next attempt
				told.Store(true)
				return nil, said
			})
			db := open(t, Config{Endpoints: []string{way}})
			r = register(t, db, time.Minute, vtep(4789))
			announced(t, near, "netplugin.vtep", vtep(4789))
			r.Update(vtep(4789), master("follower"))
			testkit.Eventually(t, time.Minute, "it is told", told.Load)
			announced(t, near, "netmaster")
			announced(t, near, "netplugin.vtep", vtep(4789))
		})
	}
}

// leasesOf returns the leases of a store.
func leasesOf(t *testing.T, db *DB) []clientv3.LeaseID {
	t.Helper()
	client, err := db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []clientv3.LeaseID
	for _, l := range all.Leases {
		ids = append(ids, l.ID)
	}
	return ids
}
