package gate

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

func TestOnlyNodesEnter(t *testing.T) {
	b := newBed(t)
	audits, read := audited(t)
	g := b.open(audits)
	n := b.through(b.join("h1", []string{"192.0.2.1"}), g)
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	others := &bed{TB: t}
	var err error
	if others.all, err = pki.NewCluster(time.Now()); err != nil {
		t.Fatal(err)
	}
	// A client that is no node of this cluster gets no answer at all, and one that is a node only by its certificate
	// is refused.
	for name, own := range map[string]tls.Certificate{
		"nobody": {}, "a netmaster": b.certificate(identity.Master, "m1"), "a user": b.certificate(identity.User, "eve"),
		"a node of another cluster": others.certificate(identity.Node, "h1"),
	} {
		conn := (&node{host: "h1", pool: n.pool, own: own}).dial(t, g)
		_, _ = io.WriteString(conn, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00") // whoever has entered is greeted for it
		if err := conn.SetReadDeadline(time.Now().Add(soon)); err != nil {
			t.Fatal(err)
		}
		if heard, err := conn.Read(make([]byte, 1)); heard > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s has entered: %d bytes, %v", name, heard, err)
		}
	}
	for name, own := range map[string]tls.Certificate{"another key": b.certificate(identity.Node, "h1"), "a node that has not joined": b.certificate(identity.Node, "h9")} {
		if err := b.through(&node{host: "h1", pool: n.pool, own: own}, g).Ping(t.Context()); !fault.Is(err, fault.Denied) {
			t.Errorf("%s has entered: %v", name, err)
		}
	}
	if err := n.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"no certificate was shown", "master/m1 is not a node", "user/eve is not a node", "node h9 has not joined"} {
		testkit.Eventually(t, soon, fmt.Sprintf("%q is written down", want), func() bool { return strings.Contains(read(), want) })
	}
}

// The name of a node belongs to one key: the holder of another one, such as a key stolen before the node got a new
// one, cannot affect the node's connections.
func TestAnotherKeyTakesNoConnectionOfANode(t *testing.T) {
	b := newBed(t)
	g := b.open()
	n := b.join("h1", []string{"192.0.2.1"})
	greets := func(n *node) *http2.Framer { // and so may stay
		conn := n.dial(t, g)
		frames := http2.NewFramer(conn, conn)
		_, err := io.WriteString(conn, http2.ClientPreface)
		if err := errors.Join(err, frames.WriteSettings()); err != nil {
			t.Fatal(err)
		}
		return frames
	}
	frames := greets(n)
	testkit.Eventually(t, soon, "the node has entered", func() bool { return g.Connections() == 1 })

	thief := &node{host: "h1", pool: n.pool, own: b.certificate(identity.Node, "h1")}
	for range nodeConnections {
		greets(thief)
	}
	testkit.Eventually(t, soon, "they are there beside the node's", func() bool { return g.Connections() == nodeConnections+1 })
	if err := frames.WritePing(false, [8]byte{}); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := frames.ReadFrame()
		if err != nil {
			t.Fatalf("the node's connection was cut: %v", err)
		}
		if answer, is := frame.(*http2.PingFrame); is && answer.IsAck() {
			return
		}
	}
}

// A removed node receives nothing more, and gets the reason.
func TestRemovalEndsStreams(t *testing.T) { removalEndsStreams(t, time.Minute) }

// The streams end within a second, where the machine has processors free for it.
func TestLongRemovalEndsStreamsWithinASecond(t *testing.T) {
	testkit.TakesLong(t)
	removalEndsStreams(t, time.Second)
}

func removalEndsStreams(t *testing.T, within time.Duration) {
	b := newBed(t)
	own, read := audited(t)
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open(own))
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	f := b.follow(n, mastercfg.GlobalRoot)
	testkit.Eventually(t, soon, "configuration", func() bool { return f.has(mastercfg.GlobalConfigKey) })
	watching := c.Watch(t.Context(), mastercfg.GlobalRoot)
	began := time.Now()
	b.remove(mastercfg.NodePrefix + "h1")
	b.put(mastercfg.GlobalRoot+"later", struct{}{})
	ended := make(chan error, 1)
	go func() {
		for resp := range watching {
			if resp.Err() != nil {
				ended <- resp.Err()
				return
			}
		}
		ended <- nil
	}()
	select {
	case <-ended:
		took := time.Since(began)
		if t.Logf("ended after %s", took); took > within {
			t.Errorf("want %s", within)
		}
	case <-time.After(time.Minute):
		t.Error("the watch goes on")
	}
	testkit.Eventually(t, soon, "it is told why", func() bool {
		err := n.Ping(t.Context())
		return err != nil && strings.Contains(err.Error(), "was removed")
	})
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	half, err := c.ActiveConnection().NewStream(ctx, &grpc.StreamDesc{}, "/etcdserverpb.KV/Range") // and sends nothing
	if err == nil {
		err = half.RecvMsg(&pb.RangeResponse{})
	}
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("who is removed and leaves a request half sent: %v", err)
	}
	testkit.Eventually(t, soon, "it is written down", func() bool {
		return strings.Contains(read(), `"verb":"/etcdserverpb.`) && strings.Contains(read(), "was removed")
	})
	if f.has(mastercfg.GlobalRoot + "later") {
		t.Error("it has heard of what came later")
	}
}

// A hundred nodes that follow three prefixes each cost the store one watch for each gate.
func TestNodesShareOneWatch(t *testing.T) {
	b := newBed(t)
	gates := []*running{b.open(), b.open()}
	before := watchers(t)
	var all []*follower
	for i := range 30 {
		n := b.through(b.join(fmt.Sprintf("n%d", i), []string{fmt.Sprintf("192.0.2.%d", i)}), gates[i%2])
		for _, prefix := range []string{mastercfg.StateRoot, mastercfg.GlobalRoot, "/contiv.io/service/"} {
			all = append(all, b.follow(n, prefix))
		}
	}
	b.put(mastercfg.GlobalRoot+"new", struct{}{})
	testkit.Eventually(t, soon, "all have heard", func() bool {
		heard := 0
		for _, f := range all {
			if f.has(mastercfg.GlobalRoot + "new") {
				heard++
			}
		}
		return heard == 30
	})
	if more := watchers(t) - before; more > len(gates) {
		t.Errorf("%d watches in the store for %d gates", more, len(gates))
	}
}

// watchers returns the number of watches of the store.
func watchers(t testing.TB) (n int) {
	t.Helper()
	answer, err := http.Get(storetest.Endpoint() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	for line := bufio.NewScanner(answer.Body); line.Scan(); {
		if _, err := fmt.Sscanf(line.Text(), "etcd_debugging_mvcc_watcher_total %d", &n); err == nil {
			return n
		}
	}
	t.Fatal("the store does not count its watches")
	return 0
}

// Nonsense on connections of one node disturbs no other.
func TestNonsenseDisturbsNobodyElse(t *testing.T) { talkNonsense(t, 1100) }

func TestLongMuchNonsenseDisturbsNobodyElse(t *testing.T) {
	testkit.TakesLong(t)
	talkNonsense(t, 10_000)
}

func talkNonsense(t *testing.T, streams int) {
	b := newBed(t)
	audits, read := audited(t)
	log, told := testkit.Recorded()
	g := b.open(audits, func(c *Config) { c.Log = log })
	good, bad := b.through(b.join("h1", []string{"192.0.2.1"}), g), b.through(b.join("h2", []string{"192.0.2.2"}), g)
	testkit.Eventually(t, soon, "the gate serves", func() bool { return good.Ping(t.Context()) == nil })

	client, err := bad.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 300 { // each could cause a line
		if err := client.ActiveConnection().Invoke(t.Context(), "/of.others/Call", &pb.RangeRequest{}, &pb.RangeResponse{}); status.Code(err) != codes.PermissionDenied {
			t.Fatalf("a call of nothing that there is: %v", err)
		}
	}
	for range streams / 100 {
		half := bad.dial(t, g)
		_, _ = io.WriteString(half, http2.ClientPreface+"\x00\x00\x20\x01\x04\x00") // a frame that does not go on
	}
	silent := bad.dial(t, g)
	_ = silent
	noise := bad.dial(t, g)
	_, _ = io.WriteString(noise, strings.Repeat("nonsense", 1000))

	// Streams that are reset as soon as they are open, and many that are not.
	for _, open := range []struct {
		path  string
		reset bool
	}{{"/etcdserverpb.Watch/Watch", true}, {"/etcdserverpb.KV/Range", true}, {"/nothing", true}, {"/of.others/Call", true}, {"/etcdserverpb.Watch/Watch", false}} {
		reset := open.reset
		conn := bad.dial(t, g)
		_, _ = io.WriteString(conn, http2.ClientPreface)
		framer := http2.NewFramer(conn, conn)
		_ = framer.WriteSettings()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_, _ = io.Copy(io.Discard, conn) // ends with the connection
		}()
		var head strings.Builder
		encoder := hpack.NewEncoder(&head)
		for i := range streams {
			head.Reset()
			for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: open.path},
				{Name: ":authority", Value: "x"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"}} {
				_ = encoder.WriteField(f)
			}
			id := uint32(2*i + 1)
			if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(head.String()), EndHeaders: true}) != nil {
				break // the gate has had enough
			}
			if reset && framer.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				break
			}
		}
		if reset {
			select {
			case <-closed:
			case <-time.After(pingAfter): // from then on it would end for lack of ping replies
				t.Errorf("the connection on which all streams to %s are reset goes on", open.path)
			}
		}
	}
	for range 20 {
		if err := good.Ping(t.Context()); err != nil { // within the limit of a request
			t.Errorf("another node's request: %v", err)
		}
	}
	if n := g.Connections(); n > 5 {
		t.Errorf("%d connections", n)
	}
	g.stop() // all lines are written
	// The first hundred refusals of a node have a line in the audit log, and then one in ten seconds has; of what
	// else happens to a node the log has a line in ten seconds.
	if lines := strings.Count(read(), "\n"); lines < 100 || lines > 110 {
		t.Errorf("%d lines in the audit log", lines)
	}
	if lines := strings.Count(told.String(), "\n"); lines == 0 || lines > 20 {
		t.Errorf("%d lines in the log:\n%.4000s", lines, told.String())
	}
}

// More watches than a node may have are refused, and its others go on.
func TestANodeHasSoManyWatches(t *testing.T) {
	b := newBed(t)
	n := b.through(b.join("h1", []string{"192.0.2.1"}), b.open(func(c *Config) { c.Limits.Watches = 3 }))
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	c, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := b.follow(n, mastercfg.GlobalRoot)
	testkit.Eventually(t, soon, "configuration", func() bool { return f.has(mastercfg.GlobalConfigKey) })
	b.put(mastercfg.GlobalRoot+"begun", struct{}{}) // what was there before is listed
	testkit.Eventually(t, soon, "the first has begun", func() bool { return f.has(mastercfg.GlobalRoot + "begun") })
	var ends []context.CancelFunc
	refused := 0
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		ends = append(ends, cancel)
		late := time.AfterFunc(soon, cancel)
		answer, answered := <-c.Watch(ctx, mastercfg.GlobalRoot, clientv3.WithCreatedNotify())
		if !late.Stop() || !answered || answer.Err() == nil && !answer.Created {
			t.Fatalf("a watch is neither begun nor refused: %+v", answer)
		}
		if answer.Err() != nil {
			refused++
		}
	}
	for _, end := range ends {
		end()
	}
	if refused != 3 {
		t.Errorf("%d of 5 refused beside one that there is, of 3", refused)
	}
	b.put(mastercfg.GlobalRoot+"new", struct{}{})
	testkit.Eventually(t, soon, "the first goes on", func() bool { return f.has(mastercfg.GlobalRoot + "new") })
}
