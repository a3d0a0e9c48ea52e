package nameserver

import (
	"cmp"
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

// Queries over UDP are received and answered in batches: under load, system calls cost more than finding the
// answers. One goroutine reads them, and answers from Zones and from the cache; a second reader would mostly be
// woken for datagrams that the first has read. Each forwarded query waits in a goroutine of its own; the forwarder
// limits their number.
const (
	batchSize   = 32
	maxQuestion = dns.MinMsgSize * 8 // bytes
)

// servePackets answers on a packet socket until ctx is done, and closes it.
func (s *Server) servePackets(ctx context.Context, socket *net.UDPConn) error {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		<-ctx.Done()
		return ignoreClosed(socket.Close())
	})
	group.Go(func() error {
		r, err := newPacketReader(s, socket, &waiting)
		if err != nil {
			return fault.New(fault.Internal, "name server: %w", err)
		}
		for {
			if err := r.round(ctx); ctx.Err() != nil {
				return nil
			} else if err != nil {
				return fault.New(fault.Internal, "name server: %w", err)
			}
		}
	})
	return group.Wait()
}

// packetReader reads and answers batches.
type packetReader struct {
	*Server
	socket    *net.UDPConn
	raw       syscall.RawConn // of the socket
	questions *datagrams
	answers   *datagrams
	prepared  prepared
	waiting   *sync.WaitGroup
}

func newPacketReader(s *Server, socket *net.UDPConn, waiting *sync.WaitGroup) (*packetReader, error) {
	raw, err := socket.SyscallConn()
	return &packetReader{Server: s, socket: socket, raw: raw, waiting: waiting,
		questions: newDatagrams(batchSize, maxQuestion), answers: newDatagrams(batchSize, MaxUDP)}, err
}

// round answers one batch.
func (r *packetReader) round(ctx context.Context) error {
	var failed error
	err := r.raw.Read(func(fd uintptr) bool {
		failed = r.questions.receive(fd)
		return failed != unix.EAGAIN
	})
	if err = cmp.Or(err, failed); err != nil {
		return err
	}
	r.answers.clear()
	for i := range r.questions.count {
		from := r.questions.from(i)
		later := func(find func() []byte) { r.later(from, find) }
		if data := r.answer(ctx, r.questions.at(i), from.Addr(), &r.prepared, r.answers.space(), later); data != nil {
			r.answers.add(data, r.questions, i)
		}
	}
	return r.raw.Write(func(fd uintptr) bool {
		return r.answers.send(fd, func(_ int, err error) { r.Log.WithError(err).Debug("answer not sent") }) // the client may be gone
	})
}

// later sends the answer to a forwarded query, when find returns it.
func (r *packetReader) later(to netip.AddrPort, find func() []byte) {
	r.waiting.Go(func() {
		if _, err := r.socket.WriteToUDPAddrPort(find(), to); err != nil {
			r.Log.WithError(err).WithField("asker", to).Debug("answer not sent")
		}
	})
}

// answer returns the answer to a datagram, possibly written into space, or nil. If the query is forwarded, it passes to
// later the function that waits for the answer.
func (s *Server) answer(ctx context.Context, data []byte, asker netip.Addr, again *prepared, space []byte, later func(find func() []byte)) []byte {
	version := s.Zones.version.Load() // before the lookup
	tenant, known := s.Tenant(asker)
	if known {
		if reply := again.find(version, tenant, data, space); reply != nil {
			s.counts.answer(tenant, true)
			return reply
		}
	}
	m, refusal := s.question(data, tenant, known)
	if m == nil {
		return refusal
	}
	reply, by := s.reply(tenant, m)
	if by != forwarded {
		packed := s.packWithin(sizeFor(m), reply, m)
		if by == answered {
			again.keep(version, tenant, data, packed, reply)
		}
		return packed
	}
	find := s.forward(tenant, asker, reply, true)
	if find == nil {
		return s.packWithin(sizeFor(m), reply, m)
	}
	later(func() []byte {
		find(ctx)
		return s.packWithin(sizeFor(m), reply, m)
	})
	return nil
}

const headerBytes = 12 // of a message

// unpackQuestion parses a query. If the query is invalid, m is nil, and refusal the answer to send, if any.
func unpackQuestion(data []byte) (m, refusal *dns.Msg) {
	if len(data) < headerBytes {
		return nil, nil
	}
	field := func(i int) uint16 { return binary.BigEndian.Uint16(data[2*i:]) }
	header := dns.Header{Id: field(0), Bits: field(1), Qdcount: field(2), Ancount: field(3), Nscount: field(4), Arcount: field(5)}
	m = new(dns.Msg)
	action := acceptQuery(header)
	if action == dns.MsgAccept {
		if m.Unpack(data) == nil && isQuestion(m) {
			return m, nil
		}
		action = dns.MsgReject
	}
	refusal = new(dns.Msg)
	refusal.Id, refusal.Response, refusal.Opcode = header.Id, true, int(header.Bits>>11)&0xf
	switch action {
	case dns.MsgReject:
		refusal.Rcode = dns.RcodeFormatError
	case dns.MsgRejectNotImplemented:
		refusal.Rcode = dns.RcodeNotImplemented
	default:
		return nil, nil
	}
	return nil, refusal
}
