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

// Bounds of forwarding: questions under way in all, answers that one asker waits for,
// and how long the name servers upstream may take together. A tenant begins a question while it has
// fewer under way than there is room for still. So one alone has half of all, k that want
// more come to one in k+1 each, and there is room for another one.
const (
	maxAsked         = 512
	maxAskedBy       = 32
	upstreamTime     = 2 * time.Second
	maxUpstreamBytes = 4096
)

// Forwarder asks other name servers, and remembers what they said.
type Forwarder struct {
	upstream Upstream
	cache    *cache
	patience time.Duration // how long a question is asked
	ednsless *ednsless

	mu       sync.Mutex
	underWay map[dns.Question]*asked
	begun    map[string]int       // by tenant: its questions that are under way
	waiting  map[netip.Addr]int   // by asker: questions whose answers he waits for
	problem  string               // see State
	passed   string               // see State.PassedOver
	told     map[string]time.Time // when the log said last what
}

// asked is a question that is under way.
type asked struct {
	tenant string // who began it
	done   chan struct{}
	answer answer
}

// answer is what somebody else said. It is shared and never changed.
type answer struct {
	failure   error // nobody said anything that can be used
	rcode     int
	answer    []dns.RR
	authority []dns.RR // SOA records only
	cut       bool     // there is more, which does not fit
}

// NewForwarder makes one that asks these in turn, until one answers, see inTurn.
func NewForwarder(upstream Upstream) *Forwarder {
	return &Forwarder{upstream: upstream, cache: newCache(time.Now), patience: upstreamTime, ednsless: &ednsless{now: time.Now, until: map[netip.AddrPort]time.Time{}},
		underWay: map[dns.Question]*asked{}, begun: map[string]int{}, waiting: map[netip.Addr]int{}, told: map[string]time.Time{}}
}

// find gives the answer to a question.
type find func(ctx context.Context) (answer, error)

// ask takes up a question. What is known, or cannot be asked, is answered at once, for a datagram as far as it fits into one; else the
// asker has a place, which he gives back by finding the answer, as he must. Where the same is under way, for whoever,
// its answer is waited for: a question that comes back to us by a loop among name
// servers ends with the time of the first, and does not multiply. Nor does it begin
// again by another way of the loop, as failures are kept for a while, too.
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

// begin has an asker wait for a question, until he leaves; first tells that it was not
// under way, so that he has to find its answer.
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

// end gives the answer of a question to all who wait for it.
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

// find asks the name servers, and gives what they say to all who wait for it.
func (f *Forwarder) find(ctx context.Context, q dns.Question, a *asked) {
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	reply, passed := inTurn(ctx, f.upstream(), f.patience, func(ctx context.Context, server netip.AddrPort) (*dns.Msg, error) { return f.exchange(ctx, q, server) })
	if reply != nil {
		a.answer = believed(q, reply)
	} else {
		a.answer.failure = errors.Join(fault.New(fault.Unavailable, "no name server upstream answers"), passed)
	}
	f.note(a.answer.failure, passed)
	f.cache.put(q, a.answer)
	f.end(q, a)
}

// exchange asks a name server, over TCP if the answer does not fit in a datagram. One that does
// not understand the question is asked once more, without EDNS, which it may not know; what
// follows is asked without it as well, and so are, if that helps, the next questions.
func (f *Forwarder) exchange(ctx context.Context, q dns.Question, server netip.AddrPort) (*dns.Msg, error) {
	m := f.ednsless.question(q, server)
	for _, network := range []string{"udp", "tcp"} {
		client := dns.Client{Net: network, UDPSize: maxUpstreamBytes, Timeout: f.patience} // or its own would count, if that is shorter
		reply, err := exchangeOn(ctx, &client, m, server)
		if err == nil && m.IsEdns0() != nil && notUnderstood(reply) && concerns(reply, q) {
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
		case reply.Truncated: // over TCP there is no reason for it
		case reply.Rcode == dns.RcodeSuccess, reply.Rcode == dns.RcodeNameError:
			return reply, nil
		default:
			return nil, fault.New(fault.Unavailable, "name server %s: %s", server, dns.RcodeToString[reply.Rcode])
		}
	}
	return nil, fault.New(fault.Unavailable, "name server %s: its answer is cut off over TCP as well", server)
}

// exchangeOn asks on a socket of its own. The library keeps to the deadline of ctx alone; once nobody wants
// the answer any more, the end of the socket is the end of its wait.
func exchangeOn(ctx context.Context, client *dns.Client, m *dns.Msg, server netip.AddrPort) (*dns.Msg, error) {
	conn, err := client.DialContext(ctx, server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			_ = conn.Close() // nobody hears what it says
		}
	})()
	reply, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	return reply, err
}

// notUnderstood tells whether a reply says that a question makes no sense, as who does not know
// EDNS may say of any with it (RFC 6891, section 7).
func notUnderstood(reply *dns.Msg) bool {
	return reply.Rcode == dns.RcodeFormatError || reply.Rcode == dns.RcodeNotImplemented
}

// concerns tells whether a reply is one to a question, which it repeats unless it was not understood.
func concerns(reply *dns.Msg, q dns.Question) bool {
	switch {
	case !reply.Response || reply.Opcode != dns.OpcodeQuery:
		return false
	case len(reply.Question) == 0:
		return notUnderstood(reply)
	}
	repeated := reply.Question[0]
	repeated.Name = fold(repeated.Name)
	return len(reply.Question) == 1 && repeated == q
}

// believed is what a reply says about a question.
func believed(q dns.Question, reply *dns.Msg) answer {
	records, names := about(q, reply.Answer)
	return answer{rcode: reply.Rcode, answer: records, authority: authority(names, reply.Ns)}
}

// about are the records that answer a question: those of the name, and of the
// names it is an alias of. Others were not asked for and are not believed, nor is
// what others say of names that nobody else can know. Names are all that it goes through.
func about(q dns.Question, records []dns.RR) (list []dns.RR, names []string) {
	name := q.Name
	for range maxAliases + 1 { // with the name that was asked for
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

// maxAliases is how long a chain of aliases may be. Servers that find answers follow some eleven themselves.
const maxAliases = 16

// authority are the records that say how long something does not exist, of the zones
// that some of the names are in.
func authority(names []string, records []dns.RR) (list []dns.RR) {
	for _, r := range records {
		holds := func(name string) bool { return dns.IsSubDomain(r.Header().Name, name) }
		if r.Header().Rrtype == dns.TypeSOA && slices.ContainsFunc(names, holds) {
			list = append(list, r)
		}
	}
	return list
}
