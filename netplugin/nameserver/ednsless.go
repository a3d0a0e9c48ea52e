package nameserver

import (
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// askedPlainly is how long a name server without EDNS is queried without EDNS, before EDNS is tried again.
const askedPlainly = 15 * time.Minute

// ednsless are the name servers that answer queries without EDNS, and refuse them with EDNS.
type ednsless struct {
	now func() time.Time

	mu    sync.Mutex
	until map[netip.AddrPort]time.Time
}

// question returns the query for a server, with EDNS unless the server is one of these.
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

// add records a server.
func (e *ednsless) add(server netip.AddrPort) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until[server] = e.now().Add(askedPlainly)
}
