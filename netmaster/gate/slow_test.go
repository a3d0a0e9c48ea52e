package gate

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/proto"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// watchRaw opens a watch without a client library, so that nothing reads its events.
func watchRaw(t *testing.T, conn io.ReadWriter, prefix string, settings ...http2.Setting) *http2.Framer {
	t.Helper()
	said := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := io.WriteString(conn, http2.ClientPreface)
	said(err)
	framer := http2.NewFramer(conn, conn)
	said(framer.WriteSettings(settings...))
	var head strings.Builder
	encoder := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", "/etcdserverpb.Watch/Watch"}, {":authority", "x"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		said(encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
	}
	said(framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte(head.String()), EndHeaders: true}))
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	create, err := proto.Marshal(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: &pb.WatchCreateRequest{Key: []byte(prefix), RangeEnd: []byte(end)}}})
	said(err)
	said(framer.WriteData(1, false, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(create))), create...)))
	return framer
}

// open returns the number of streams with a watch. It is called before any of them has to wait.
func (s *streams) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.all {
		w.mu.Lock()
		n += len(w.watches)
		w.mu.Unlock()
	}
	return n
}

// A watcher that does not read its events delays no other, and is disconnected.
func TestWhoDoesNotReadWhatItWatchesIsCutOff(t *testing.T) {
	b := newBed(t)
	log, told := testkit.Recorded()
	g := b.open(func(c *Config) { c.Log = log })
	good := b.through(b.join("h1", []string{"192.0.2.1"}), g)
	f := b.follow(good, mastercfg.GlobalRoot)
	testkit.Eventually(t, soon, "the other one hears of what there is", func() bool { return f.has(mastercfg.GlobalConfigKey) })
	b.put(mastercfg.GlobalRoot+"begun", struct{}{})
	testkit.Eventually(t, soon, "it watches", func() bool { return f.has(mastercfg.GlobalRoot + "begun") })
	connections, watches := g.Connections(), g.streams.open()

	// One reads, but never opens the flow-control window; the other one opens it fully, and reads nothing.
	noRoom, deaf := b.join("h2", []string{"192.0.2.2"}), b.join("h3", []string{"192.0.2.3"})
	full := noRoom.dial(t, g)
	watchRaw(t, full, mastercfg.GlobalRoot)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, full) // ends with the connection
	}()
	unread := deaf.dial(t, g)
	if err := unread.(*tls.Conn).NetConn().(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	roomy := watchRaw(t, unread, mastercfg.GlobalRoot, http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxInt32})
	if err := roomy.WriteWindowUpdate(0, math.MaxInt32-math.MaxUint16); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, soon, "both watch", func() bool { return g.streams.open() == watches+2 })

	const records, size = 40, 200 << 10 // more than what the kernel keeps for a connection
	last, began := "", time.Now()
	for i := range records {
		last = fmt.Sprintf("%slong%d", mastercfg.GlobalRoot, i)
		b.put(last, strings.Repeat("x", size))
	}
	testkit.Eventually(t, soon, "the other one hears all", func() bool { return f.has(last) })
	// They are disconnected sendTime after the first unread event. A machine that takes as long for all of it proves
	// nothing.
	if n := g.Connections(); n != connections+2 && time.Since(began) < sendTime {
		t.Errorf("%d connections: it has heard all when those who do not read were gone", n-connections)
	}
	if err := good.Ping(t.Context()); err != nil {
		t.Errorf("its request: %v", err)
	}

	testkit.Eventually(t, sendTime+soon, "those who do not read are gone", func() bool { return g.Connections() == connections })
	<-ended
	testkit.Eventually(t, soon, "nothing of them is left", func() bool { return g.streams.open() == watches })
	for _, n := range []*node{noRoom, deaf} {
		if !strings.Contains(told.String(), "does not take what its watches tell") || !strings.Contains(told.String(), "node="+n.host) {
			t.Errorf("why %s was cut off is not told:\n%s", n.host, told.String())
		}
		if err := b.through(n, g).Ping(t.Context()); err != nil {
			t.Errorf("%s comes again: %v", n.host, err)
		}
	}
	b.put(mastercfg.GlobalRoot+"after", struct{}{})
	testkit.Eventually(t, soon, "the other one goes on", func() bool { return f.has(mastercfg.GlobalRoot + "after") })
	for i := range records { // other tests have this store, too
		b.remove(fmt.Sprintf("%slong%d", mastercfg.GlobalRoot, i))
	}
}
