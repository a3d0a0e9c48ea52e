package nameserver

import (
	"net/netip"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// askedPlainly is how long a name server that does not know EDNS is asked without it at once; then it may have learned it.
const askedPlainly = 15 * time.Minute

// ednsless are the name servers that have answered without EDNS what they had not understood with it.
type ednsless struct {
	now func() time.Time

	mu    sync.Mutex
	until map[netip.AddrPort]time.Time
}

// question is a question for a server, with EDNS unless the server is known not to know it.
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
