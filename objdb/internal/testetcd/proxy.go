package testetcd

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy forwards connections between clients and a store, and can interrupt them.
type Proxy struct {
	URL    string
	target string
	all    sync.WaitGroup

	mu    sync.Mutex
	state link
	lost  int // pieces of requests, since the link became silent
	conns map[net.Conn]struct{}
}

type link int

const (
	mended link = iota
	broken      // connections are reset, new ones are closed at once
	silent      // connections remain, nothing passes: a partition
)

// NewProxy starts a proxy in front of a store.
func NewProxy(t testing.TB, store string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{URL: "http://" + l.Addr().String(), target: strings.TrimPrefix(store, "http://"), conns: map[net.Conn]struct{}{}}
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
		p.Cut()
		p.all.Wait()
	})
	return p
}

// Cut breaks all connections and refuses new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = broken
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// Silence keeps connections and drops everything sent on them.
func (p *Proxy) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.lost = silent, 0
}

// Lost reports whether a request was dropped since the link became silent.
func (p *Proxy) Lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost > 0
}

// Mend lets new connections pass; silenced connections have lost data, and are closed.
func (p *Proxy) Mend() {
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

// Carries reports whether there is a connection.
func (p *Proxy) Carries() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) > 0
}

// join forwards one connection in both directions.
func (p *Proxy) join(in net.Conn) {
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
	defer p.release(in, out)
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{in: out, out: in} {
		both.Go(func() {
			_, _ = io.Copy(&gate{p, to, from == in}, from) // an error is the end of the connection
			in.Close()
			out.Close()
		})
	}
	both.Wait()
}

// hold records a connection for Cut; false if the link is cut already.
func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == broken {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// release removes closed connections from the record.
func (p *Proxy) release(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}

// gate drops what is written while the link is silent.
type gate struct {
	p        *Proxy
	to       net.Conn
	requests bool // towards the store
}

func (g *gate) Write(b []byte) (int, error) {
	if g.loses() {
		return len(b), nil
	}
	return g.to.Write(b)
}

func (g *gate) loses() bool {
	g.p.mu.Lock()
	defer g.p.mu.Unlock()
	if g.p.state != silent {
		return false
	}
	if g.requests {
		g.p.lost++
	}
	return true
}
