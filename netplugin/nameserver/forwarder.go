package nameserver

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/utils/fault"
)

// Limits of forwarding. A tenant may start another query while it has fewer in progress than are still free. So a
// single busy tenant gets half of maxAsked, k busy tenants get one in k+1 each, and the remaining part is free for
// one more.
const (
	maxAsked         = 512             // queries in progress, in all
	maxAskedBy       = 32              // answers that one client waits for
	upstreamTime     = 2 * time.Second // for all upstream servers together
	maxUpstreamBytes = 4096
)

// Forwarder forwards queries to upstream name servers, and caches their answers.
type Forwarder struct {
	upstream Upstream
	cache    *cache
	patience time.Duration // the time for a query, all servers together
	ednsless *ednsless

	mu       sync.Mutex
	underWay map[dns.Question]*asked
	begun    map[string]int       // by tenant: its queries in progress
	waiting  map[netip.Addr]int   // by client: number of answers that it waits for
	problem  string               // see State
	passed   string               // see State.PassedOver
	told     map[string]time.Time // by message: when it was last logged
}

// asked is a query in progress.
type asked struct {
	tenant string // of the client that began it
	done   chan struct{}
	answer answer
}

// answer is an answer of an upstream server. It is shared and never changed.
type answer struct {
	failure   error // no server gave a usable answer
	rcode     int
	answer    []dns.RR
	authority []dns.RR // SOA records only
	cut       bool     // truncated
}

// NewForwarder returns a forwarder to upstream servers, which are queried in order until one answers, see
// askServers.
func NewForwarder(upstream Upstream) *Forwarder {
	return &Forwarder{upstream: upstream, cache: newCache(time.Now), patience: upstreamTime, ednsless: &ednsless{now: time.Now, until: map[netip.AddrPort]time.Time{}},
		underWay: map[dns.Question]*asked{}, begun: map[string]int{}, waiting: map[netip.Addr]int{}, told: map[string]time.Time{}}
}

// find waits for the answer to a query.
type find func(ctx context.Context) (answer, error)

// ask looks a question up in the cache and, on a miss, reserves a slot for the client. An answer from the cache
// (for a datagram only as much as fits) or an error is returned at once. Otherwise the caller must call later: it
// queries the servers, returns the answer and releases the slot.
//
// If the same query is in progress, for any client, later waits for its answer. So a query that returns through a
// loop of name servers does not multiply, and ends when the first one times out. Failures are cached for a while,
// so the query does not start again by another path of the loop either.
func (f *Forwarder) ask(tenant string, asker netip.Addr, q dns.Question, datagram bool) (known answer, later find, err error) {
	q.Name = fold(q.Name)
	if a, ok := f.cache.get(q, datagram); ok {
		return a, nil, a.failure
	}
	a, first, err := f.begin(tenant, asker, q)
	if err != nil {
		return answer{}, nil, err
	}
	return answer{}, func(ctx context.Context) (answer, error) {
		defer f.leave(asker)
		if first {
			f.find(ctx, q, a)
		}
		select {
		case <-a.done:
			return a.answer.aged(0), a.answer.failure
		case <-ctx.Done():
			return answer{}, ctx.Err()
		}
	}, nil
}

// begin counts a client among those that wait for a query, until leave is called. first reports that the query was
// not in progress, so that the caller has to call find.
func (f *Forwarder) begin(tenant string, asker netip.Addr, q dns.Question) (a *asked, first bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting[asker] >= maxAskedBy {
		return nil, false, fault.New(fault.Exhausted, "%s waits for %d answers already", asker, maxAskedBy)
	}
	a, again := f.underWay[q]
	if !again {
		if begun := f.begun[tenant]; begun >= maxAsked-len(f.underWay) {
			return nil, false, fault.New(fault.Exhausted, "%d questions of tenant %s are under way already, of %d in all", begun, tenant, len(f.underWay))
		}
		a = &asked{tenant: tenant, done: make(chan struct{})}
		f.underWay[q] = a
		f.begun[tenant]++
	}
	f.waiting[asker]++
	return a, !again, nil
}

// end wakes all clients that wait for a query.
func (f *Forwarder) end(q dns.Question, a *asked) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.underWay, q)
	if f.begun[a.tenant]--; f.begun[a.tenant] == 0 {
		delete(f.begun, a.tenant)
	}
	close(a.done)
}

func (f *Forwarder) leave(asker netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting[asker]--; f.waiting[asker] == 0 {
		delete(f.waiting, asker)
	}
}

// find queries the name servers, caches the answer and wakes all clients that wait for it.
func (f *Forwarder) find(ctx context.Context, q dns.Question, a *asked) {
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	reply, passed := askServers(ctx, f.upstream(), f.patience, func(ctx context.Context, server netip.AddrPort) (*dns.Msg, error) { return f.exchange(ctx, q, server) })
	if reply != nil {
		a.answer = acceptedPart(q, reply)
	} else {
		a.answer.failure = errors.Join(fault.New(fault.Unavailable, "no name server upstream answers"), passed)
	}
	f.note(a.answer.failure, passed)
	f.cache.put(q, a.answer)
	f.end(q, a)
}

// exchange sends a query to a name server, over TCP if the answer over UDP is truncated. A server that refuses the
// query with FORMERR or NOTIMP may not support EDNS: it is queried once more without EDNS, including over TCP. If
// that succeeds, the next queries to it omit EDNS.
func (f *Forwarder) exchange(ctx context.Context, q dns.Question, server netip.AddrPort) (*dns.Msg, error) {
	m := f.ednsless.question(q, server)
	for _, network := range []string{"udp", "tcp"} {
		client := dns.Client{Net: network, UDPSize: maxUpstreamBytes, Timeout: f.patience} // otherwise the client's own timeout applies if it is shorter
		reply, err := exchangeOn(ctx, &client, m, server)
		if err == nil && m.IsEdns0() != nil && refusesEDNS(reply) && concerns(reply, q) {
			m = new(dns.Msg).SetQuestion(q.Name, q.Qtype)
			reply, err = exchangeOn(ctx, &client, m, server)
			if network == "udp" && err == nil && (reply.Rcode == dns.RcodeSuccess || reply.Rcode == dns.RcodeNameError) && concerns(reply, q) {
				f.ednsless.add(server)
			}
		}
		switch {
		case err != nil:
			return nil, fault.New(fault.Unavailable, "name server %s: %w", server, err)
		case !concerns(reply, q):
			return nil, fault.New(fault.Unavailable, "name server %s answers another question", server)
		case reply.Truncated: // over TCP there is no reason for truncation
		case reply.Rcode == dns.RcodeSuccess, reply.Rcode == dns.RcodeNameError:
			return reply, nil
		default:
			return nil, fault.New(fault.Unavailable, "name server %s: %s", server, dns.RcodeToString[reply.Rcode])
		}
	}
	return nil, fault.New(fault.Unavailable, "name server %s: its answer is cut off over TCP as well", server)
}

// exchangeOn sends a query on a socket of its own. The library honours only the deadline of ctx, not its
// cancellation: then the socket is closed, which ends the wait.
func exchangeOn(ctx context.Context, client *dns.Client, m *dns.Msg, server netip.AddrPort) (*dns.Msg, error) {
	conn, err := client.DialContext(ctx, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			_ = conn.Close() // the answer is no longer needed
		}
	})()
	reply, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	return reply, err
}

// refusesEDNS reports whether a reply is FORMERR or NOTIMP, with which a server without EDNS may answer any query
// that has it (RFC 6891, section 7).
func refusesEDNS(reply *dns.Msg) bool {
	return reply.Rcode == dns.RcodeFormatError || reply.Rcode == dns.RcodeNotImplemented
}

// concerns reports whether a reply belongs to a question: it repeats the question, which only FORMERR and NOTIMP
// may omit.
func concerns(reply *dns.Msg, q dns.Question) bool {
	switch {
	case !reply.Response || reply.Opcode != dns.OpcodeQuery:
		return false
	case len(reply.Question) == 0:
		return refusesEDNS(reply)
	}
	repeated := reply.Question[0]
	repeated.Name = fold(repeated.Name)
	return len(reply.Question) == 1 && repeated == q
}

// acceptedPart returns the part of a reply that answers the question.
func acceptedPart(q dns.Question, reply *dns.Msg) answer {
	records, names := recordsFor(q, reply.Answer)
	return answer{rcode: reply.Rcode, answer: records, authority: authority(names, reply.Ns)}
}

// recordsFor returns the records that answer a question: those of the name, and of the names that it is an alias
// of. Other records, and those of reserved names, are ignored. names are the name and its aliases.
func recordsFor(q dns.Question, records []dns.RR) (list []dns.RR, names []string) {
	name := q.Name
	for range maxAliases + 1 { // with the name in question
		names = append(names, name)
		alias := ""
		for _, r := range records {
			if fold(r.Header().Name) != name || r.Header().Class != dns.ClassINET {
				continue
			}
			if c, ok := r.(*dns.CNAME); ok {
				alias = fold(c.Target)
				list = append(list, r)
			} else if r.Header().Rrtype == q.Qtype || q.Qtype == dns.TypeANY {
				list = append(list, r)
			}
		}
		if alias == "" || q.Qtype == dns.TypeCNAME || reserved(alias) || slices.Contains(names, alias) {
			break
		}
		name = alias
	}
	return list, names
}

// maxAliases is the longest chain of CNAME records that is followed. Resolvers follow about eleven.
const maxAliases = 16

// authority returns the SOA records of zones that contain one of the names: they have the TTL of negative answers.
func authority(names []string, records []dns.RR) (list []dns.RR) {
	for _, r := range records {
		holds := func(name string) bool { return dns.IsSubDomain(r.Header().Name, name) }
		if r.Header().Rrtype == dns.TypeSOA && slices.ContainsFunc(names, holds) {
			list = append(list, r)
		}
	}
	return list
}
