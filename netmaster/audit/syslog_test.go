package audit

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/retry"
)

// message is a line as syslog has it; the line is what begins with a brace.
var message = regexp.MustCompile(`^<110>1 \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z \S+ netmaster \d+ audit - (\{.*\})$`)

// packets receives datagrams.
func packets(t *testing.T, conn net.PacketConn) func() string {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	return func() string {
		buffer := make([]byte, 64<<10)
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
}

// streamed receives messages that are counted, of one connection after the other.
func streamed(t *testing.T, l net.Listener) func() string {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	messages := make(chan string, 100)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			in := bufio.NewReader(conn)
			for {
				var n int
				if _, err := fmt.Fscanf(in, "%d ", &n); err != nil {
					break
				}
				text := make([]byte, n)
				if _, err := io.ReadFull(in, text); err != nil {
					break
				}
				messages <- string(text)
			}
			conn.Close()
		}
	}()
	return func() string {
		select {
		case m := <-messages:
			return m
		case <-time.After(10 * time.Second):
			t.Fatal("no message")
		}
		return ""
	}
}

// Each line is sent to whatever kind of server there is, whole and in order.
func TestLinesAreCopiedToSyslog(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	local, err := net.ListenPacket("unixgram", socket)
	if err != nil {
		t.Fatal(err)
	}
	datagrams, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := testkit.SelfSigned(t, "syslog")
	secured, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own}})
	if err != nil {
		t.Fatal(err)
	}
	l := New(filepath.Join(t.TempDir(), "audit.log"), testkit.Quiet())
	servers := map[string]func() string{
		"unix://" + socket:                        packets(t, local),
		"udp://" + datagrams.LocalAddr().String(): packets(t, datagrams),
		"tcp://" + plain.Addr().String():          streamed(t, plain),
		"tls://" + secured.Addr().String():        streamed(t, secured),
	}
	for target := range servers {
		if err := l.SendTo(target); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range l.copies {
		c.tls.RootCAs = x509.NewCertPool()
		c.tls.RootCAs.AddCert(own.Leaf)
	}
	running(t, l)
	const lines = 20
	for i := range lines {
		l.Add(Entry{Time: time.Now(), Key: fmt.Sprint("key", i)})
	}
	for target, next := range servers {
		var told strings.Builder
		for range lines {
			m := next()
			found := message.FindStringSubmatch(m)
			if found == nil {
				t.Fatalf("%s: %s", target, m)
			}
			told.WriteString(found[1] + "\n")
		}
		if n, err := verify(strings.NewReader(told.String())); n != lines || err != nil {
			t.Errorf("%s: %d lines, %v", target, n, err)
		}
	}
}

// While the server is away the file is written; waiting lines are sent when it is back.
func TestAServerOfSyslogThatIsAwayHoldsNothingUp(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	path := filepath.Join(t.TempDir(), "audit.log")
	l := New(path, testkit.Quiet())
	if err := l.SendTo("unix://" + socket); err != nil {
		t.Fatal(err)
	}
	l.Strict()
	running(t, l)
	for i := range 3 {
		if err := l.Begin(t.Context(), Entry{Key: fmt.Sprint("key", i)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // it ends, and returns
		server, err := net.ListenPacket("unixgram", socket)
		if err != nil {
			t.Fatal(err)
		}
		next := packets(t, server)
		for i := range 3 {
			if m := next(); !strings.Contains(m, fmt.Sprint("key", i)) {
				t.Errorf("message %d: %s", i, m)
			}
		}
		server.Close()
		if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := l.Begin(t.Context(), Entry{Key: fmt.Sprint("key", i)}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestTargetsOfSyslog(t *testing.T) {
	for target, ok := range map[string]bool{
		"unix:///dev/log": true, "udp://192.0.2.1": true, "tcp://log.example.org:601": true, "tls://[2001:db8::1]:6514": true,
		"": false, "/dev/log": false, "unix://dev/log": false, "http://x": false, "udp://": false, "tcp://x/y": false, "tls://u:p@x": false, "udp://x?y": false, "%": false,
	} {
		l := New("x", testkit.Quiet())
		if err := l.SendTo(target); (err == nil) != ok {
			t.Errorf("%q: %v", target, err)
		}
	}
	l := New("x", testkit.Quiet())
	if err := l.SendTo("udp://192.0.2.1"); err != nil || l.copies[0].target.Host != "192.0.2.1:514" {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.copies[0].run(ended) // returns
}

// sentToListener returns a log with a copy by TCP, and the listener that receives the copy.
func sentToListener(t *testing.T) (*net.TCPListener, *Log) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	l := New(filepath.Join(t.TempDir(), "audit.log"), testkit.Quiet())
	if err := l.SendTo("tcp://" + listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	return listener.(*net.TCPListener), l
}

// A restarted server of syslog, with or without its earlier input, has every line in the end.
func TestNoLineIsLostWhenAServerOfSyslogIsStartedAgain(t *testing.T) {
	listener, l := sentToListener(t)
	l.copies[0].redial = retry.NewPacer(10*time.Millisecond, 10*time.Millisecond)
	running(t, l)
	limit := time.Now().Add(20 * time.Second)
	accept := func() *net.TCPConn {
		t.Helper()
		if err := listener.SetDeadline(limit); err != nil {
			t.Fatal(err)
		}
		conn, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(limit); err != nil {
			t.Fatal(err)
		}
		return conn.(*net.TCPConn)
	}
	add := func(n int) { l.Add(Entry{Time: time.Now(), Key: fmt.Sprintf("key%d.", n)}) }
	// hears reads until a line has arrived.
	hears := func(conn net.Conn, n int) {
		t.Helper()
		var all []byte
		buffer := make([]byte, 4096)
		for !strings.Contains(string(all), fmt.Sprintf("key%d.", n)) {
			got, err := conn.Read(buffer)
			if err != nil {
				t.Fatalf("line %d is lost: %v", n, err)
			}
			all = append(all, buffer[:got]...)
		}
	}
	add(0)
	conn := accept()
	hears(conn, 0)
	for n := 1; n < 20; n++ {
		if n%2 == 0 { // it ends with a line that it has not read
			add(n)
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		} else {
			conn.Close()
			add(n)
		}
		conn = accept()
		hears(conn, n)
	}
	conn.Close()
}

// A server that takes connections and ends them, such as a balancer whose own servers are away, is not asked without a
// pause, and has every line when it serves again.
func TestAServerOfSyslogThatEndsEachConnectionIsAskedMoreAndMoreRarely(t *testing.T) {
	listener, l := sentToListener(t)
	running(t, l)
	const lines = 3
	for i := range lines {
		l.Add(Entry{Time: time.Now(), Key: fmt.Sprint("key", i)})
	}
	const most = 10
	begun := time.Now()
	accept := func(limit time.Time) bool {
		t.Helper()
		if err := listener.SetDeadline(limit); err != nil {
			t.Fatal(err)
		}
		conn, err := listener.Accept()
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	for n := range 2 {
		if !accept(begun.Add(time.Minute)) {
			t.Fatalf("%d connections in a minute", n)
		}
	}
	connections := 2
	for end := time.Now().Add(time.Second); connections <= most && accept(end); {
		connections++
	}
	if connections > most {
		t.Errorf("%d connections in a second", connections)
	}
	if err := listener.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	next := streamed(t, listener)
	for i := range lines {
		if m := next(); !strings.Contains(m, fmt.Sprint("key", i)) {
			t.Errorf("message %d: %s", i, m)
		}
	}
}

// Lines that a server has not read when it ends are sent when it is back, however long it was away.
func TestNoLineIsLostWhenAServerOfSyslogIsAwayForLong(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(filepath.Join(t.TempDir(), "audit.log"), testkit.Quiet())
	if err := l.SendTo("tcp://" + listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	const away = 600 * time.Millisecond // half of it at least
	l.copies[0].proven, l.copies[0].redial = away/3, retry.NewPacer(away, away)
	running(t, l)
	l.Add(Entry{Time: time.Now(), Key: "key0"})
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if m := streamed(t, listener)(); !strings.Contains(m, "key0") {
		t.Error(m)
	}
}

// copied returns the copy of a log that does not run. connect connects it to a server that reads everything.
func copied(t *testing.T) (s *syslog, connect func()) {
	t.Helper()
	l := New("x", testkit.Quiet())
	if err := l.SendTo("tcp://192.0.2.1"); err != nil {
		t.Fatal(err)
	}
	s = l.copies[0]
	return s, func() {
		here, there := net.Pipe()
		t.Cleanup(func() { _ = there.Close() })
		go func() { _, _ = io.Copy(io.Discard, there) }()
		s.conn, s.since = here, time.Now()
	}
}

// What is dropped, as too many messages were written into a connection that broke soon, is counted.
func TestMessagesThatAServerMayNotHaveReadAreCountedWhereTheyAreDropped(t *testing.T) {
	s, connect := copied(t)
	connect()
	const more = 3
	for range waiting + more {
		if err := s.send(t.Context(), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	s.hangUp()
	if n := s.lost.unreported.Load(); n != more || len(s.kept) != waiting {
		t.Errorf("%d are lost, %d are kept", n, len(s.kept))
	}
}

// Lines that are long take no more memory than there is room for, while they wait and while they are kept.
func TestLinesWaitAndAreKeptWithinTheirRoom(t *testing.T) {
	s, connect := copied(t)
	line := make([]byte, longest)
	const more, lines = 3, room / longest
	for range lines + more {
		s.add(time.Now(), line)
	}
	if n := s.lost.unreported.Load(); n <= more || len(s.waiting) >= lines {
		t.Errorf("%d are lost, %d wait", n, len(s.waiting))
	}
	waited, lost := len(s.waiting), s.lost.unreported.Load()
	connect()
	for len(s.waiting) > 0 {
		if err := s.send(t.Context(), s.taken(<-s.waiting)); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.queued.Load(); n != 0 {
		t.Errorf("%d bytes wait when none do", n)
	}
	for range more {
		if err := s.send(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	s.hangUp()
	if n := s.lost.unreported.Load() - lost; s.size > room || n == 0 || len(s.kept)+int(n) != waited+more {
		t.Errorf("%d bytes are kept in %d lines of %d, %d are lost", s.size, len(s.kept), waited+more, n)
	}
}

// The last lines are copied, too: a netmaster that stops records the requests still in progress, and then ends.
func TestTheLastLinesAreCopied(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	next := streamed(t, listener)
	l := New(filepath.Join(t.TempDir(), "audit.log"), testkit.Quiet())
	if err := l.SendTo("tcp://" + listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	const lines = 50
	for i := range lines {
		l.Add(Entry{Key: fmt.Sprint("key", i)})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.Run(ended)
	for i := range lines {
		if m := next(); !strings.Contains(m, fmt.Sprintf(`"key%d"`, i)) {
			t.Fatalf("line %d: %s", i, m)
		}
	}
}

func TestLastLinesThatNobodyTakesAreCounted(t *testing.T) {
	log, said := testkit.Recorded()
	l := New(filepath.Join(t.TempDir(), "audit.log"), log)
	if err := l.SendTo("unix://" + filepath.Join(t.TempDir(), "nobody")); err != nil {
		t.Fatal(err)
	}
	for i := range 7 {
		l.Add(Entry{Key: fmt.Sprint("key", i)})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	l.Run(ended)
	if n := l.Uncopied(); !strings.Contains(said.String(), "lost=7") || n != 7 || l.Lost() != 0 {
		t.Errorf("%d are counted, and it is said: %s", n, said)
	}
}
