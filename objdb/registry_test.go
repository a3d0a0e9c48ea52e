package objdb

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func master(role string) Service {
	return Service{ServiceName: "netmaster", Role: role, TTL: 10, HostAddr: "10.1.1.1", Port: 9999}
}

func vtep(port int) Service {
	return Service{ServiceName: "netplugin.vtep", TTL: 10, HostAddr: "10.1.1.1", Port: port, Hostname: "node1"}
}

func register(t *testing.T, db *DB, ttl time.Duration, services ...Service) *Registration {
	t.Helper()
	r, err := db.Register(context.Background(), ttl, services...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { withdraw(t, r) })
	return r
}

// withdraw ends a registration and revokes its lease, as resign does for a term.
func withdraw(t *testing.T, r *Registration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := testkit.Poll(ctx, func() error { return r.Close(ctx) }); err != nil {
		t.Error(err)
	}
}

// announced waits until exactly these services of a name are registered.
func announced(t *testing.T, db *DB, name string, want ...Service) {
	t.Helper()
	testkit.Eventually(t, time.Minute, "registry holds what it should", func() bool {
		got, err := db.Services(context.Background(), name)
		return err == nil && len(got) == len(want) && (len(want) == 0 || cmp.Equal(got, want))
	})
}

func TestServicesAreAnnouncedChangedAndWithdrawn(t *testing.T) {
	db := newDB(t)
	r := register(t, db, time.Minute, master("follower"), vtep(4789))
	announced(t, db, "netmaster", master("follower"))
	announced(t, db, "netplugin.vtep", vtep(4789))
	if got, want := valueOf(t, db, "/contiv.io/service/netmaster/10.1.1.1:9999"),
		`{"ServiceName":"netmaster","Role":"follower","Version":"","TTL":10,"HostAddr":"10.1.1.1","Port":9999,"Hostname":""}`; got != want {
		t.Errorf("stored as %s, want %s", got, want)
	}

	r.Update(master("leader"))
	announced(t, db, "netmaster", master("leader"))
	announced(t, db, "netplugin.vtep")

	withdraw(t, r)
	if kvs, _, err := db.List(context.Background(), ServicePrefix); err != nil || len(kvs) != 0 {
		t.Errorf("left after Close: %v, %v", kvs, err)
	}
}

func TestServicesComeBackAfterTheirLeaseWasLost(t *testing.T) {
	db := newDB(t)
	register(t, db, 6*time.Second, master("follower")) // notices the loss at its next renewal
	announced(t, db, "netmaster", master("follower"))
	client, err := db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leases, err := client.Leases(context.Background())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("%+v, %v", leases, err)
	}
	if _, err := client.Revoke(context.Background(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	announced(t, db, "netmaster", master("follower"))
}

// The age of their keys decides which of two nodes that claim one address was first.
func TestAKeyIsAsOldAsWhatItSaysOfAHost(t *testing.T) {
	db := newDB(t)
	place := vtep(4789).Key()
	made := func(what string, s Service) int64 {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		r, err := db.Register(ctx, time.Minute, s)
		if err != nil {
			t.Fatal(err)
		}
		announced(t, db, s.ServiceName, s)
		kv, err := db.Get(ctx, place)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		cancel() // its process ends, and the key remains for its TTL
		<-r.done
		return kv.CreateRevision
	}
	first := made("first", vtep(4789))
	restarted := vtep(4789)
	restarted.Ready = true
	if again := made("restarted", restarted); again != first {
		t.Errorf("a restart makes the key of revision %d anew: %d", first, again)
	}
	other := vtep(4789)
	other.Hostname = "node2"
	if later := made("under another name", other); later <= first {
		t.Errorf("the key for another host is of revision %d, that for the first of %d", later, first)
	}
}

func TestRegistrationStartsWithTheStoreAwayAndSurvivesAnOutage(t *testing.T) {
	p := testetcd.NewProcess(t)
	p.Kill()
	db := open(t, Config{Endpoints: []string{p.URL}, RequestTimeout: 500 * time.Millisecond})
	r := register(t, db, 3*time.Second, master("follower"))
	p.Start()
	announced(t, db, "netmaster", master("follower"))

	p.Kill()
	r.Update(master("leader"))
	p.Start()
	announced(t, db, "netmaster", master("leader"))
}

func TestServicesOfAProcessThatEndsWithoutCloseExpire(t *testing.T) {
	t.Parallel() // it mostly waits
	db := newDB(t)
	ctx, end := context.WithCancel(context.Background())
	first, second := vtep(1), vtep(2)
	expires, err := db.Register(ctx, 2*time.Second, first)
	if err != nil {
		t.Fatal(err)
	}
	stays, err := db.Register(ctx, time.Minute, second)
	if err != nil {
		t.Fatal(err)
	}
	announced(t, db, "netplugin.vtep", first, second)
	end()
	<-expires.done
	<-stays.done
	announced(t, db, "netplugin.vtep", second) // it was not withdrawn
}

// A refusal, unlike an outage, does not end by itself: operators have to learn what to change, so it is logged
// once in a while.
func TestARefusedRegistrationIsInTheLog(t *testing.T) {
	url := testetcd.New(t)
	var refuses atomic.Bool
	var refused atomic.Int32
	refuses.Store(true)
	way := testetcd.NewRelay(t, url, func(r testetcd.Request) ([]byte, error) {
		if refuses.Load() && r.Method == "Txn" {
			refused.Add(1)
			return nil, status.Error(codes.PermissionDenied, "address 10.1.1.1 is not one that the node joined with")
		}
		return r.Send()
	})
	log, hook := logtest.NewNullLogger()
	registration := register(t, open(t, Config{Endpoints: []string{way}, Log: logrus.NewEntry(log)}), time.Minute, vtep(4789))
	testkit.Eventually(t, time.Minute, "tried again and again", func() bool { return refused.Load() > 3 })
	if err := registration.Refused(); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "address 10.1.1.1 is not one that the node joined with") {
		t.Errorf("who asks is told %v", err)
	}
	var told []string
	for _, e := range hook.AllEntries() {
		if e.Level == logrus.WarnLevel {
			told = append(told, e.Message+": "+fmt.Sprint(e.Data[logrus.ErrorKey]))
		}
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "putting services failed, trying again: ") || !strings.Contains(told[0], "address 10.1.1.1 is not one that the node joined with") {
		t.Errorf("told: %q", told)
	}
	refuses.Store(false)
	announced(t, open(t, Config{Endpoints: []string{url}}), "netplugin.vtep", vtep(4789))
	testkit.Eventually(t, time.Minute, "nothing is refused any more", func() bool { return registration.Refused() == nil })
}

// A removed node does not even get a lease. A registration that was refused remains so while the store is
// unavailable.
func TestWhoGetsNoLeaseIsRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	store := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.PermissionDenied, "node n1 was removed")
	}))
	go func() { _ = store.Serve(l) }()
	t.Cleanup(store.Stop)
	db := open(t, Config{Endpoints: []string{"http://" + l.Addr().String()}})
	registration, err := db.Register(t.Context(), time.Minute, vtep(4789))
	if err != nil {
		t.Fatal(err)
	}
	isRefused := func() bool { return fault.Is(registration.Refused(), fault.Denied) }
	testkit.Eventually(t, time.Minute, "refused", isRefused)
	registration.learn(fault.New(fault.Unavailable, "gone"))
	if !isRefused() {
		t.Errorf("while the store is away: %v", registration.Refused())
	}
}

func TestCorruptEntriesAreLeftOut(t *testing.T) {
	log, told := testkit.Recorded()
	db := open(t, Config{Endpoints: []string{testetcd.New(t)}, Log: log})
	put(t, db, ServicePrefix+"netmaster/bad:1", "{")
	put(t, db, ServicePrefix+"netmaster/empty:1", "{}")
	put(t, db, ServicePrefix+"netmaster.rpc/10.1.1.1:1", `{"ServiceName":"netmaster.rpc"}`)
	register(t, db, 10*time.Second, master("leader"))
	announced(t, db, "netmaster", master("leader"))
	for range 3 { // as status and checks do
		if _, err := db.Services(t.Context(), "netmaster"); err != nil {
			t.Fatal(err)
		}
	}
	if text := told.String(); strings.Count(text, "skipped") != 1 || !strings.Contains(text, "netmaster/bad:1") || !strings.Contains(text, "netmaster/empty:1") {
		t.Errorf("the log: %s", text)
	}
	if _, err := db.Register(context.Background(), time.Millisecond); !fault.Is(err, fault.Invalid) {
		t.Errorf("TTL of a millisecond: %v", err)
	}
}

func TestServicesAreAnnouncedAgainToAStoreThatWentBack(t *testing.T) {
	t.Parallel() // it mostly waits
	p := testetcd.NewProcess(t)
	db := open(t, Config{Endpoints: []string{p.URL}})
	r := register(t, db, 60*time.Second, master("follower"))
	announced(t, db, "netmaster", master("follower"))
	backup := p.Backup()
	r.Update(master("leader"))
	announced(t, db, "netmaster", master("leader"))
	p.Restore(backup) // has the lease, and another role
	announced(t, db, "netmaster", master("leader"))
}
