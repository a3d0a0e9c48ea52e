package nameserver

import (
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// askedPlainly is how long queries go without EDNS to a name server that does not know it, until EDNS is tried again.
const askedPlainly = 15 * time.Minute

// ednsless are the name servers that answer queries without EDNS, and refuse the same with EDNS.
type ednsless struct {
	now func() time.Time

	mu    sync.Mutex
	until map[netip.AddrPort]time.Time
}

// question is a query for a server, with EDNS unless the server is one of these.
func (e *ednsless) question(q dns.Question, server netip.AddrPort) *dns.Msg {
	m := new(dns.Msg).SetQuestion(q.Name, q.Qtype)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch until, known := e.until[server]; {
	case known && e.now().Before(until):
		return m
	case known:
		delete(e.until, server)
	}
	return m.SetEdns0(MaxUDP, false)
}

// add remembers a server.
func (e *ednsless) add(server netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until[server] = e.now().Add(askedPlainly)
}
