package objdb

import (
	"net"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/contiv/netplugin/objdb/internal/testetcd"
	"github.com/contiv/netplugin/test/testkit"
)

// ways returns several endpoints of one store.
func ways(t *testing.T, count int) (all []*testetcd.Proxy, urls []string) {
	t.Helper()
	store := testetcd.New(t)
	for range count {
		p := testetcd.NewProxy(t, store)
		all, urls = append(all, p), append(urls, p.URL)
	}
	return all, urls
}

// carrying returns those with a connection.
func carrying(all []*testetcd.Proxy) (some []*testetcd.Proxy) {
	for _, p := range all {
		if p.Carries() {
			some = append(some, p)
		}
	}
	return some
}

func TestOneEndpointAtATimeIsUsedAndAnotherOneWhenThatIsGoneOrSilent(t *testing.T) {
	all, urls := ways(t, 3)
	db := open(t, Config{Endpoints: urls, OneAtATime: true, RequestTimeout: 5 * time.Second})
	put(t, db, "/x/a", "1")
	for what, fail := range map[string]func(*testetcd.Proxy){"gone": (*testetcd.Proxy).Cut, "silent": (*testetcd.Proxy).Silence} {
		var used []*testetcd.Proxy
		testkit.Eventually(t, time.Minute, "one endpoint is used", func() bool { // the connection to the previous one may still be closing
			used = carrying(all)
			return len(used) == 1
		})
		fail(used[0])
		// gRPC itself misses a silent one after pingAfter+pingTimeout.
		testkit.Eventually(t, 10*time.Second, "the store is reached elsewhere when the endpoint is "+what, func() bool {
			_, err := db.Get(t.Context(), "/x/a")
			return err == nil
		})
		used[0].Mend()
	}
}

func TestAnEndpointThatTakesConnectionsAndDoesNotServeIsLeft(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	useless := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		return status.Error(codes.Unavailable, "this one does not hear the store")
	}))
	go func() { _ = useless.Serve(l) }()
	defer useless.Stop()
	urls := []string{"http://" + l.Addr().String(), testetcd.New(t)}
	for range 8 { // half of them try the useless one first
		db := open(t, Config{Endpoints: urls, OneAtATime: true})
		began := time.Now()
		if err := db.Ping(t.Context()); err != nil {
			t.Fatalf("after %s: %v", time.Since(began), err)
		}
	}
}

// However long no endpoint has served, an endpoint that does not serve after the store has returned is soon left.
func TestALongOutageDoesNotHoldAClientAtAnEndpoint(t *testing.T) {
	r := newRoute()
	c := &conn{address: "192.0.2.1:1", of: &r.conns}
	now := time.Now()
	for range 20 {
		r.open = map[*conn]struct{}{c: {}}
		if len(r.leaving(c, now)) != 1 {
			t.Fatal("it stays")
		}
		if stay := r.until.Sub(now); stay+patience > 5*time.Second {
			t.Fatalf("the client stays for %s and %s", stay, patience)
		}
		now = r.until
	}
}

func TestManyClientsAreSpreadOverTheEndpoints(t *testing.T) {
	all, urls := ways(t, 3)
	for range 30 {
		put(t, open(t, Config{Endpoints: urls, OneAtATime: true}), "/x/a", "1")
	}
	if used := carrying(all); len(used) != len(all) { // by chance once in 60,000 times
		t.Errorf("%d of %d endpoints are used", len(used), len(all))
	}
	few := newRoute()
	order := few.sorted(urls)
	fewer := few.sorted([]string{order[2], order[0]})
	if !slices.Equal(fewer, []string{order[0], order[2]}) {
		t.Errorf("%q are tried as %q", order, fewer)
	}
}
