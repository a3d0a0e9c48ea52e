package nameserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/utils/fairlisten"
	"github.com/contiv/netplugin/utils/fault"
)

// MaxUDP is the largest answer over UDP, in bytes, even if the client accepts more: datagrams of this size are not
// fragmented in any network.
const MaxUDP = 1232

// Limits of connections. For the limit of a tenant see connections.
const (
	maxConnections  = 1024            // in all
	maxOfAsker      = 16              // of one client
	maxOnConnection = 128             // queries on one connection
	maxAtOnce       = 8               // queries of one connection that are forwarded concurrently
	questionTime    = 2 * time.Second // to read a query, or to send an answer
	idleTime        = 8 * time.Second // until the next query
)

// Server answers the queries on its sockets.
type Server struct {
	Zones *Zones
	// Tenant returns the tenant of the endpoint with a source address.
	Tenant func(asker netip.Addr) (tenant string, known bool)
	// Forwarder answers queries for other names; nil: they are refused.
	Forwarder *Forwarder
	Log       *logrus.Entry

	place     Place // of keep
	ready     func(context.Context) error
	listening atomic.Bool // it has open sockets at its place
	counts    counts
}

// Run answers on a packet socket and on a listener until ctx ends, and closes both.
func (s *Server) Run(ctx context.Context, packets *net.UDPConn, streams net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.servePackets(ctx, packets) })
	group.Go(func() error { return s.serveStreams(ctx, fairlisten.By(streams, newConnections(s.tenantOf).admit)) })
	return group.Wait()
}

func ignoreClosed(err error) error {
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fault.New(fault.Internal, "name server: %w", err)
	}
	return nil
}

// acceptQuery decides by the header of a message how to handle it. Responses are ignored, so that two name servers
// cannot answer each other endlessly.
func acceptQuery(h dns.Header) dns.MsgAcceptAction {
	const response, opcodes = 1 << 15, 0xf << 11
	switch {
	case h.Bits&response != 0:
		return dns.MsgIgnore
	case h.Bits&opcodes != dns.OpcodeQuery:
		return dns.MsgRejectNotImplemented
	case h.Qdcount != 1 || h.Ancount != 0 || h.Nscount != 0 || h.Arcount > 2:
		return dns.MsgReject
	}
	return dns.MsgAccept
}

// isQuestion reports whether a message that the library has parsed is a valid query. The library also accepts
// messages that end within their question, and several OPT records; RFC 6891 allows one, with the root's name.
func isQuestion(m *dns.Msg) bool {
	options := 0
	for _, r := range m.Extra {
		if r.Header().Rrtype == dns.TypeOPT {
			options++
			if r.Header().Name != "." {
				return false
			}
		}
	}
	return len(m.Question) == 1 && m.Question[0].Qclass != 0 && options <= 1
}

// question parses a message. If it is not a valid query, m is nil, and refusal the answer to send, if any.
func (s *Server) question(data []byte, tenant string, known bool) (m *dns.Msg, refusal []byte) {
	m, refused := unpackQuestion(data)
	switch {
	case m == nil && refused == nil:
		return nil, nil
	case !known:
		s.counts.strangers.Add(1)
		return nil, nil
	case refused != nil:
		s.counts.refuse(tenant)
		return nil, s.pack(refused, m)
	}
	return m, nil
}

// pack encodes an answer. If it cannot be encoded, which upstream servers may cause, it becomes SERVFAIL.
func (s *Server) pack(reply, m *dns.Msg) []byte {
	data, err := reply.Pack()
	if err != nil {
		data, err = new(dns.Msg).SetRcode(m, dns.RcodeServerFailure).Pack()
	}
	if err != nil {
		s.Log.WithError(err).Debug("answer cannot be expressed")
	}
	return data
}

// tenantOf returns the tenant of a client that opens a connection. Clients without a tenant are counted.
func (s *Server) tenantOf(asker netip.Addr) (tenant string, known bool) {
	tenant, known = s.Tenant(asker)
	if !known {
		s.counts.strangers.Add(1)
	}
	return tenant, known
}

// packWithin encodes an answer, truncated if it is longer than most bytes.
func (s *Server) packWithin(most int, reply, m *dns.Msg) []byte {
	reply.Compress = true
	data := s.pack(reply, m)
	if len(data) > most {
		reply.Truncate(most)
		data = s.pack(reply, m)
	}
	return data
}

// sizeFor returns the largest size of the answer to a query over UDP.
func sizeFor(m *dns.Msg) int {
	if opt := m.IsEdns0(); opt != nil {
		return int(min(max(opt.UDPSize(), dns.MinMsgSize), MaxUDP))
	}
	return dns.MinMsgSize
}

// reply returns the answer to a query, which has one question. If the verdict is forwarded, forward has to add the
// records.
func (s *Server) reply(tenant string, m *dns.Msg) (reply *dns.Msg, by verdict) {
	reply = new(dns.Msg).SetReply(m)
	reply.RecursionAvailable = s.Forwarder != nil
	opt := m.IsEdns0()
	if opt != nil {
		reply.SetEdns0(MaxUDP, opt.Do())
	}
	q := m.Question[0]
	switch {
	case opt != nil && opt.Version() != 0:
		return s.refuse(tenant, reply, dns.RcodeBadVers), answered
	case isSigned(m), q.Qclass != dns.ClassINET, q.Qtype == dns.TypeAXFR, q.Qtype == dns.TypeIXFR:
		return s.refuse(tenant, reply, dns.RcodeRefused), answered
	}
	switch by = s.Zones.answer(tenant, reply); {
	case by == answered || by == partly:
		s.counts.answer(tenant, len(reply.Answer) > 0)
	case by == unknown:
		s.counts.failed.Add(1)
		reply.Rcode = dns.RcodeServerFailure
	case s.Forwarder == nil || !m.RecursionDesired:
		return s.refuse(tenant, reply, dns.RcodeRefused), answered
	}
	return reply, by
}

// isSigned reports whether a message has a TSIG record, at any position.
func isSigned(m *dns.Msg) bool {
	return slices.ContainsFunc(m.Extra, func(r dns.RR) bool { return r.Header().Rrtype == dns.TypeTSIG })
}

func (s *Server) refuse(tenant string, reply *dns.Msg, code int) *dns.Msg {
	s.counts.refuse(tenant)
	reply.Rcode = code
	return reply
}

// forward completes a reply by an answer of the upstream servers. If the answer is in the cache, or an error, the
// reply is complete and later is nil. Otherwise the caller must call later, which completes the reply.
func (s *Server) forward(tenant string, asker netip.Addr, reply *dns.Msg, datagram bool) (later func(context.Context)) {
	got, find, err := s.Forwarder.ask(tenant, asker, reply.Question[0], datagram)
	if find == nil {
		s.complete(reply, got, err)
		return nil
	}
	return func(ctx context.Context) {
		got, err := find(ctx)
		s.complete(reply, got, err)
	}
}

// complete puts an answer of the upstream servers, or its failure, into a reply.
func (s *Server) complete(reply *dns.Msg, got answer, err error) {
	if err != nil {
		s.counts.failed.Add(1)
		log := s.Log.WithError(err).WithField("name", reply.Question[0].Name)
		if fault.Is(err, fault.Unavailable) && s.Forwarder.shouldLog(noAnswer) {
			log.Warn(noAnswer)
		} else {
			log.Debug("not answered")
		}
		reply.Rcode = dns.RcodeServerFailure
		return
	}
	if _, passed := s.Forwarder.lastProblem(); passed != "" && s.Forwarder.shouldLog(passedOver) {
		s.Log.WithField("error", passed).Warn(passedOver)
	}
	s.counts.forwarded.Add(1)
	name := reply.Question[0].Name
	for _, r := range got.answer { // copies of this query; the cached query may have had another case
		if strings.EqualFold(r.Header().Name, name) {
			r.Header().Name = name
		}
	}
	reply.Rcode, reply.Answer, reply.Ns, reply.Truncated = got.rcode, got.answer, got.authority, got.cut
}

// askerOf returns the client's address of a connection.
func askerOf(a net.Addr) netip.Addr {
	if a, is := a.(*net.TCPAddr); is {
		return a.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
