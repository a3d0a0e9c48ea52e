package nameserver

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// message is a file of testdata/messages: the bytes of a client, and the expected answer. "#" begins a comment,
// "udp" and "tcp" are followed by the name of the answer's code, or "nothing", "length" by the length that a
// connection announces if it is a wrong one. All else are bytes; "5*ab" is five times the same.
type message struct {
	name   string
	want   map[string]string // by network
	length uint16
	data   []byte
}

func readMessages(t testing.TB) (all []message) {
	t.Helper()
	files, err := filepath.Glob("testdata/messages/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := readMessage(string(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		m.name = filepath.Base(file)
		all = append(all, m)
	}
	return all
}

func readMessage(text string) (m message, err error) {
	m.want = map[string]string{}
	announced := -1
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "udp", words[0] == "tcp":
			m.want[words[0]] = words[1]
		case words[0] == "length":
			if announced, err = strconv.Atoi(words[1]); err != nil {
				return m, err
			}
		default:
			for _, word := range words {
				part, err := readBytes(word)
				if err != nil {
					return m, err
				}
				m.data = append(m.data, part...)
			}
		}
	}
	m.length = uint16(len(m.data))
	if announced >= 0 {
		m.length = uint16(announced)
	}
	return m, nil
}

func readBytes(word string) ([]byte, error) {
	times, digits, many := strings.Cut(word, "*")
	if !many {
		return hex.DecodeString(word)
	}
	n, err := strconv.Atoi(times)
	if err != nil {
		return nil, err
	}
	part, err := hex.DecodeString(digits)
	return bytes.Repeat(part, n), err
}

// onStream returns the message in a connection's form.
func (m message) onStream() []byte {
	return append(binary.BigEndian.AppendUint16(nil, m.length), m.data...)
}

// after returns a question to ask after a message: the server must still answer.
func after() *dns.Msg {
	m := question("front.", dns.TypeA)
	m.Id = 0xbeef
	return m
}

// overUDP returns the answer to a message; nil: none, though the next message was answered.
func (m message) overUDP(t *testing.T, conn *net.UDPConn) (answer []byte) {
	t.Helper()
	next, err := after().Pack()
	if err != nil {
		t.Fatal(err)
	}
	_, first := conn.Write(m.data)
	_, second := conn.Write(next)
	if err := errors.Join(first, second, conn.SetReadDeadline(time.Now().Add(20*time.Second))); err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
	buffer, goesOn := make([]byte, dns.MaxMsgSize), false
	for !goesOn || answer == nil && m.want["udp"] != "nothing" {
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatalf("%s: answer %x, then goes on %v: %v", m.name, answer, goesOn, err)
		}
		if got := bytes.Clone(buffer[:n]); bytes.HasPrefix(got, next[:2]) {
			goesOn = true
		} else {
			answer = got
		}
	}
	return answer
}

// overTCP returns the answer on a connection before it ends.
func (m message) overTCP(t *testing.T, server string) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	deadline := conn.SetDeadline(time.Now().Add(20 * time.Second))
	_, sent := conn.Write(m.onStream())
	ended := conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err := errors.Join(deadline, sent, ended, err); err != nil {
		t.Fatalf("%s: %v", m.name, err)
	}
	if len(answer) == 0 {
		return nil
	}
	if len(answer) < 2 || int(binary.BigEndian.Uint16(answer)) != len(answer)-2 {
		t.Errorf("%s: %x is not one message", m.name, answer)
	}
	return answer[2:]
}

// refusals are codes of answers without information about a name.
var refusals = map[string]bool{"FORMERR": true, "NOTIMP": true, "REFUSED": true, "BADVERS": true}

// check compares an answer with the wanted one.
func (m message) check(t *testing.T, network string, answer []byte) {
	t.Helper()
	got := "nothing"
	if answer != nil {
		reply := new(dns.Msg)
		if err := reply.Unpack(answer); err != nil {
			t.Errorf("%s %s: %x: %v", network, m.name, answer, err)
			return
		}
		got = dns.RcodeToString[reply.Rcode]
		if reply.Rcode == dns.RcodeBadVers {
			got = "BADVERS"
		}
		if !reply.Response || len(m.data) > 1 && reply.Id != binary.BigEndian.Uint16(m.data) {
			t.Errorf("%s %s: %s", network, m.name, reply)
		}
		checkAnswer(t, m.data, answer)
	}
	if want := m.want[network]; got != want {
		t.Errorf("%s %s: %s, want %s", network, m.name, got, want)
	}
	asked := new(dns.Msg)
	_ = asked.Unpack(m.data) // as far as it can be read
	if whole := max(len(m.data), asked.Len()); refusals[got] && len(answer) > whole {
		t.Errorf("%s %s: %s has %d bytes, the message without pointers %d", network, m.name, got, len(answer), whole)
	}
	if network == "udp" && len(answer) > sizeFor(asked) {
		t.Errorf("%s: %d bytes", m.name, len(answer))
	}
}

// Any malformed message, in a datagram or on a connection, gets the documented answer, is counted if it is
// refused, and the next question is answered.
func TestMalformedMessagesGetWhatIsSaid(t *testing.T) {
	others := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) { tell(w, m, dns.RcodeNameError) })))
	s, server := start(t, exampleZones(t), others, inBlue)
	conn := dialUDP(t, server, net.IPv4(127, 0, 0, 1))
	for _, m := range readMessages(t) {
		for network, send := range map[string]func() []byte{
			"udp": func() []byte { return m.overUDP(t, conn) },
			"tcp": func() []byte { return m.overTCP(t, server) },
		} {
			before := s.Stats().Refused
			m.check(t, network, send())
			if counted := s.Stats().Refused > before; counted != refusals[m.want[network]] {
				t.Errorf("%s %s is counted as refused: %v", network, m.name, counted)
			}
		}
	}
	for _, network := range []string{"udp", "tcp"} {
		if reply := exchangeWith(t, network, server, question("front.", dns.TypeA)); len(reply.Answer) != 2 {
			t.Errorf("after all, %s: %s", network, reply)
		}
	}
}

func dialUDP(t *testing.T, server string, from net.IP) *net.UDPConn {
	t.Helper()
	conn, err := (&net.Dialer{LocalAddr: &net.UDPAddr{IP: from}}).Dial("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn.(*net.UDPConn)
}

// An unknown client gets no answer to malformed messages either.
func TestStrangersGetSilenceForMalformedMessages(t *testing.T) {
	stranger := net.IPv4(127, 0, 0, 9)
	_, server := start(t, exampleZones(t), nil, func(a netip.Addr) (string, bool) { return "blue", a != netip.MustParseAddr(stranger.String()) })
	conn := dialUDP(t, server, stranger)
	for _, m := range readMessages(t) {
		if _, err := conn.Write(m.data); err != nil {
			t.Fatal(err)
		}
		exchangeWith(t, "udp", server, question("front.", dns.TypeA)) // so that it has been read
	}
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 512)); err == nil {
		t.Errorf("%d bytes for a stranger", n)
	}
}
