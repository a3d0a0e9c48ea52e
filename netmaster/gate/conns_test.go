package gate

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// shown is a connection with a client's certificate.
type shown struct {
	net.Conn
	cert   x509.Certificate
	closed atomic.Bool
}

func (s *shown) ConnectionState() tls.ConnectionState {
	return tls.ConnectionState{PeerCertificates: []*x509.Certificate{&s.cert}}
}
func (s *shown) RemoteAddr() net.Addr { return &net.TCPAddr{} }
func (s *shown) Close() error         { s.closed.Store(true); return nil }

// A certificate that expires while its connection is admitted leaves no caller behind.
func TestACertificateMayEndAtOnce(t *testing.T) {
	verify := func([]*x509.Certificate, time.Time) (identity.Identity, error) {
		return identity.Identity{Kind: identity.Node, Name: "h1"}, nil
	}
	g := &Gate{cfg: Config{Verify: verify}, log: testkit.Quiet(), callers: newCallers(Limits{Connections: 10_000})}
	var all []*shown
	for i := range 1000 {
		conn := &shown{cert: x509.Certificate{NotAfter: time.Now().Add(time.Duration(i%10-5) * time.Microsecond)}}
		if _, _, err := (credentialsOf{g}).ServerHandshake(conn); err != nil {
			t.Fatal(err)
		}
		all = append(all, conn)
	}
	testkit.Eventually(t, soon, "all have left", func() bool { return g.Connections() == 0 })
	for _, conn := range all {
		testkit.Eventually(t, soon, "it is closed", conn.closed.Load)
	}
}

// The timer that ends a connection with its certificate stands still while the machine is suspended. Each call is
// checked by the clock.
func TestACertificateIsJudgedByTheClock(t *testing.T) {
	g := New(Config{DB: newBed(t).db, Log: testkit.Quiet()})
	c := &caller{keyholder: keyholder{"h1", "k"}, ends: time.Now().Add(-time.Second)}
	if err := g.checkStillJoined(c); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a certificate that has ended: %v", err)
	}
	c.ends = time.Now().Add(time.Hour)
	if err := g.checkStillJoined(c); status.Code(err) != codes.Unavailable {
		t.Errorf("with a certificate that goes on, at a gate that knows nothing yet: %v", err)
	}
}

// A node's budget is kept until the node is removed: reconnecting does not refill it, whatever happens to other
// nodes meanwhile.
func TestWhoComesAgainHasNoMoreLeft(t *testing.T) {
	cs := newCallers(Limits{}.withDefaults())
	come := func(host string) *caller {
		c := &caller{keyholder: keyholder{host, "k"}, cut: func() {}}
		cs.enter(c)
		return c
	}
	node, other := come("h1"), come("h2")
	for range nodeBurst {
		if !node.budget.rate.Allow() {
			t.Fatal("less than the burst is there")
		}
	}
	other.budget.watch()
	cs.leave(node)
	cs.leave(other)
	cs.expel(func(host, _ string) bool { return host == "h1" })
	if again := come("h1"); again.budget != node.budget || again.budget.rate.Tokens() > nodeBurst/2 {
		t.Errorf("the node has %v requests left", again.budget.rate.Tokens())
	}
	if again := come("h2"); again.budget == other.budget {
		t.Error("what a removed node had is there still")
	}
}

// A connection that is queued when the gate closes is closed, too.
func TestAClosedQueueKeepsNothing(t *testing.T) {
	q := newQueue()
	q.put(&shown{})
	q.close()
	q.empty()
	for range 20 {
		conn := &shown{}
		if q.put(conn); !conn.closed.Load() {
			t.Fatal("it is open, and nobody knows of it")
		}
	}
}

// Leases requested at the same moment are counted, too.
func TestLeasesAtOnceAreCounted(t *testing.T) {
	b, host := newBed(t), rand.Text() // other tests leave leases behind
	n := b.through(b.join(host, []string{"192.0.2.1"}), b.open())
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	var granted atomic.Int32
	var tasks sync.WaitGroup
	for range 30 {
		tasks.Go(func() {
			if _, err := c.Grant(t.Context(), 10); err == nil {
				granted.Add(1)
			}
		})
	}
	tasks.Wait()
	if got := granted.Load(); got != 4 {
		t.Errorf("%d leases, want 4", got)
	}
}

// The password of a BGP speaker is hidden, also if the value has the same length afterwards.
func TestPasswordsAreHiddenWhateverTheirLength(t *testing.T) {
	const pair = `,"password":"a"`     // 15 bytes, which go
	const written = `"hostname":"<<<"` // without escapes, of 5 bytes more each
	b := newBed(t)
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open())
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	heard := c.Watch(clientv3.WithRequireLeader(t.Context()), mastercfg.BgpPrefix+"h2", clientv3.WithCreatedNotify())
	if created := <-heard; created.Err() != nil || !created.Created {
		t.Fatal(created.Err())
	}
	db, err := b.db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	value := `{"id":"h2",` + written + `,"router-ip":"","as":"","neighbor-as":"","neighbor":""` + pair + `}`
	if _, err := db.Put(t.Context(), mastercfg.BgpPrefix+"h2", value); err != nil {
		t.Fatal(err)
	}
	told := <-heard
	if told.Err() != nil || len(told.Events) != 1 {
		t.Fatalf("%d events: %v", len(told.Events), told.Err())
	}
	if got := string(told.Events[0].Kv.Value); len(got) != len(value) || got == value {
		t.Errorf("%s (%d bytes), written %s (%d bytes)", got, len(got), value, len(value))
	}
}
