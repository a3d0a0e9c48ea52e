package gate

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testkit"
)

// way is a proxy, a gate's only connection to the store.
type way struct {
	net.Listener
	mu   sync.Mutex
	all  []net.Conn
	gone bool
}

func newWay(t *testing.T) *way {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &way{Listener: l}
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", strings.TrimPrefix(storetest.Endpoint(), "http://"))
			if err != nil || !w.keep(in, out) {
				_ = in.Close()
				continue
			}
			for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
				tasks.Go(func() {
					_, _ = io.Copy(to, from) // an error is the end of the connection
					_, _ = in.Close(), out.Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		w.cut()
		tasks.Wait()
	})
	return w
}

// keep records a connection for cut; false if the proxy is cut.
func (w *way) keep(ends ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, ends...)
	return !w.gone
}

func (w *way) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	_ = w.Close()
	for _, c := range w.all {
		_ = c.Close()
	}
}

// A gate that is cut off from the store ends the watches of its nodes, so that these turn to another netmaster.
// Otherwise they would receive nothing as long as their connections stand.
func TestWatchesEndAtAGateThatDoesNotHearTheStore(t *testing.T) {
	b, w := newBed(t), newWay(t)
	db, err := objdb.Open(objdb.Config{Endpoints: []string{"http://" + w.Addr().String()}, RequestTimeout: 2 * time.Second, Log: testkit.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	g := b.open(func(c *Config) { c.DB = db })
	t.Cleanup(func() {
		g.stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	n := b.through(b.join("h1", []string{"192.0.2.1"}), g)
	testkit.Eventually(t, soon, "the gate serves", func() bool { return n.Ping(t.Context()) == nil })
	client, err := n.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	watching := client.Watch(t.Context(), mastercfg.GlobalRoot+"news")
	testkit.Eventually(t, soon, "it watches", func() bool { return g.streams.open() == 1 })
	w.cut()
	select {
	case resp, told := <-watching:
		if told && resp.Err() == nil {
			t.Errorf("the watch tells %+v", resp)
		}
	case <-time.After(soon):
		t.Error("the watch goes on")
	}
}
