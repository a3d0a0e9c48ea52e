package nameserver

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
)

// onlyHeader announces a question and ends.
var onlyHeader = []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}

// Datagrams and connections have different code in the server.
func TestAMessageWithoutItsQuestionIsAFormatError(t *testing.T) {
	_, server := start(t, exampleZones(t), nil, inBlue)
	for _, network := range []string{"udp", "tcp"} {
		conn, err := dns.DialTimeout(network, server, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, sent := conn.Write(onlyHeader)
		if err := errors.Join(sent, conn.SetReadDeadline(time.Now().Add(10*time.Second))); err != nil {
			t.Fatal(err)
		}
		reply, err := conn.ReadMsg()
		if err != nil || reply.Id != 7 || !reply.Response || reply.Rcode != dns.RcodeFormatError {
			t.Errorf("%s: %v, %v", network, reply, err)
		}
	}
}

// Whatever is sent, the server goes on, and no answer is larger than a datagram of its own may be, or 512 bytes,
// if that is more.
func FuzzMessagesOfAnyContent(f *testing.F) {
	addMessages(f)
	s := &Server{Zones: exampleZones(f), Tenant: inBlue, Log: testkit.Quiet()}
	f.Fuzz(func(t *testing.T, data []byte) {
		answer := s.answer(t.Context(), data, netip.MustParseAddr("169.254.0.10"), new(prepared), nil, func(find func() []byte) { find() })
		if answer == nil {
			return
		}
		if len(answer) > MaxUDP {
			t.Errorf("%d bytes for %x", len(answer), data)
		}
		checkAnswer(t, data, answer)
	})
}

// The same over a connection, where each message has its length before it.
func FuzzMessagesOfAnyContentOnAConnection(f *testing.F) {
	addMessages(f)
	_, server := start(f, exampleZones(f), nil, inBlue)
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > dns.MaxMsgSize {
			return
		}
		conn, err := net.Dial("tcp", server)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		deadline := conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, sent := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(data))), data...))
		// The server reads the end behind the message, and closes.
		ended := conn.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(conn)
		if err := errors.Join(deadline, sent, ended, err); err != nil {
			t.Fatalf("%x: %v", data, err)
		}
		switch {
		case len(answer) == 0:
		case len(answer) < 2 || int(binary.BigEndian.Uint16(answer)) != len(answer)-2:
			t.Errorf("%x for %x: not one message", answer, data)
		default:
			checkAnswer(t, data, answer[2:])
		}
	})
}

// addMessages adds the messages of all files.
func addMessages(f *testing.F) {
	f.Helper()
	for _, m := range readMessages(f) {
		f.Add(m.data)
	}
	for _, m := range []*dns.Msg{question("front.", dns.TypeA), question("_80._tcp.shop.", dns.TypeSRV), question("1.1.1.10.in-addr.arpa.", dns.TypePTR)} {
		data, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// checkAnswer checks that an answer can be parsed, and has no data of other tenants.
func checkAnswer(t *testing.T, data, answer []byte) {
	t.Helper()
	reply, m := new(dns.Msg), new(dns.Msg)
	if err := reply.Unpack(answer); err != nil {
		t.Fatalf("%x: %v", data, err)
	}
	_ = m.Unpack(data) // its text, as far as it can be parsed
	if text := reply.String(); strings.Contains(text, "10.1.1.77") || strings.Contains(text, "secret") && !strings.Contains(m.String(), "secret") {
		t.Errorf("of another tenant: %s", text)
	}
}
