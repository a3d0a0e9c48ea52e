package objdb

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy stands between a client and a store, so that a test can part them.
type proxy struct {
	URL    string
	target string
	all    sync.WaitGroup

	mu    sync.Mutex
	state link
	conns map[net.Conn]struct{}
}

type link int

const (
	mended link = iota
	broken      // connections are reset, new ones are closed at once
	silent      // connections stay, nothing passes: a partition
)

func newProxy(t testing.TB, store string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{URL: "http://" + l.Addr().String(), target: strings.TrimPrefix(store, "http://"), conns: map[net.Conn]struct{}{}}
	p.all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.all.Go(func() { p.join(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.all.Wait()
	})
	return p
}

func (p *proxy) is() link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// cut breaks all connections and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = broken
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// silence lets connections stand and loses what is sent on them.
func (p *proxy) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = silent
}

// mend lets new connections pass; what was silenced stays lost, so those end.
func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == silent {
		for c := range p.conns {
			c.Close()
		}
		clear(p.conns)
	}
	p.state = mended
}

// join carries one connection in both directions.
func (p *proxy) join(in net.Conn) {
	defer in.Close()
	if !p.hold(in) {
		return
	}
	out, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer out.Close()
	if !p.hold(out) {
		return
	}
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
		both.Go(func() {
			_, _ = io.Copy(&gate{p, to}, from) // an error is the end of the connection
			in.Close()
			out.Close()
		})
	}
	both.Wait()
}

// hold remembers a connection for cut; false if the link is cut already.
func (p *proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == broken {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// gate loses what is written while the link is silent.
type gate struct {
	p  *proxy
	to net.Conn
}

func (g *gate) Write(b []byte) (int, error) {
	if g.p.is() == silent {
		return len(b), nil
	}
	return g.to.Write(b)
}
