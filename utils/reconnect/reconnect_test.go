package reconnect

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

// Requests share connections as long as nothing has changed. Then they use new ones; requests on an old connection
// are answered, and the connection ends.
func TestOldConnectionsEndWithTheirRequests(t *testing.T) {
	var closed sync.Map // by the address of the client
	held, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			close(held)
			<-release
		}
		_, _ = w.Write([]byte(r.RemoteAddr))
	}))
	server.Config.ConnState = func(c net.Conn, is http.ConnState) {
		if is == http.StateClosed {
			closed.Store(c.RemoteAddr().String(), true)
		}
	}
	server.Start()
	defer server.Close()

	var config atomic.Pointer[tls.Config]
	transport := New(config.Load, func(*tls.Config) *http.Transport { return &http.Transport{} })
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	ask := func(path string) string {
		resp, err := client.Get(server.URL + path)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer resp.Body.Close()
		said := make([]byte, 100)
		n, _ := resp.Body.Read(said)
		return string(said[:n])
	}
	idle := ask("/")
	if again := ask("/"); again != idle {
		t.Errorf("another connection, and nothing has changed: %s, then %s", idle, again)
	}
	var busy string
	var asking sync.WaitGroup
	asking.Go(func() { busy = ask("/long") }) // takes the connection
	<-held
	config.Store(&tls.Config{})
	now := ask("/")
	close(release)
	asking.Wait()
	if busy != idle || now == idle {
		t.Errorf("before %s, during %s, after the change %s", idle, busy, now)
	}
	testkit.Eventually(t, 20*time.Second, "the old connection ends", func() bool { _, gone := closed.Load(idle); return gone })
	if again := ask("/"); again != now {
		t.Errorf("the new one is not kept: %s, then %s", now, again)
	}
}
