package daemon

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testkit"
)

// holdup is a proxy of the store that holds everything after a text until it may continue.
type holdup struct {
	text          []byte
	held, release chan struct{}
	once          sync.Once
}

// start returns the address of the proxy.
func (h *holdup) start(t *testing.T, store string) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); open.Wait() })
	open.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", store)
			if err != nil {
				_ = from.Close()
				continue
			}
			carry := func(to io.Writer, from io.Reader, ends ...net.Conn) {
				_, _ = io.Copy(to, from) // an error is the end of the connection
				for _, c := range ends {
					_ = c.Close()
				}
			}
			open.Go(func() { carry(holding{h, to}, from, from, to) })
			open.Go(func() { carry(from, to, from, to) })
		}
	})
	return l.Addr().String()
}

// holding is a writer of a holdup.
type holding struct {
	by *holdup
	io.Writer
}

func (h holding) Write(p []byte) (int, error) {
	if bytes.Contains(p, h.by.text) {
		h.by.once.Do(func() { close(h.by.held) })
		<-h.by.release
	}
	return h.Writer.Write(p)
}

// A change that is committed while the netmaster ends, after its client has gone, is audited.
func TestAChangeThatOutlivesItsClientIsWrittenDown(t *testing.T) {
	storetest.Open(t)
	way := &holdup{text: []byte("late-one"), held: make(chan struct{}), release: make(chan struct{})}
	goOn := sync.OnceFunc(func() { close(way.release) })
	address := way.start(t, strings.TrimPrefix(storetest.Endpoint(), "http://"))
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	n := run(t, func(c *Config) {
		c.Store.Endpoints = []string{"http://" + address}
		c.Security = Security{Dir: filepath.Join(dir, "pki"), Founding: mastercfg.SecurityPermissive, Name: "m1", Socket: filepath.Join(dir, "netmaster.sock")}
		c.API.Audit = audit.New(path, testkit.Quiet())
	})
	t.Cleanup(goOn) // before the netmaster is waited for
	leader(t, n)
	answered := make(chan error, 1)
	go func() {
		_, _, err := n.try("POST", "/api/v1/tenants/late-one/", `{"tenantName":"late-one"}`)
		answered <- err
	}()
	select {
	case <-way.held:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing is written")
	}
	n.stop()
	if err := <-answered; err == nil {
		t.Error("the client has heard of it")
	}
	goOn()
	n.shut()
	text, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(text), "/tenants/late-one/") {
		t.Errorf("%v:\n%s", err, text)
	}
}
