package audit

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// syslog sends lines to a syslog server (RFC 5424): to a socket of this machine, such as journald's, by UDP (RFC
// 5426), by TCP or by TLS (RFC 5425). The file does not wait for it: lines that do not fit into the queue during
// an outage are counted, and missing in the copy's chain of hashes.
//
// A server does not acknowledge lines. Lines written to a connection are therefore retained until it has lasted
// for some time after that, and otherwise sent again on the next connection, however long that takes: a line may
// arrive twice, with the same hash.
type syslog struct {
	target  *url.URL
	tls     *tls.Config
	log     *logrus.Entry
	host    string
	waiting chan []byte
	queued  atomic.Int64 // bytes in waiting
	lost    losses
	proven  time.Duration // time after which a message counts as read
	redial  *retry.Pacer  // delay of connections after one that was shorter than that

	// Used by run only.
	conn    net.Conn // nil: none
	since   time.Time
	brief   bool          // whether the last connection was shorter than proven
	ended   chan struct{} // closed when the server has closed the connection; nil: no connection, or a datagram socket
	kept    []kept        // in the order of writing
	size    int           // bytes in kept
	crowded int64         // messages dropped from kept for want of room, all older
}

// kept is a message that the server may not have read.
type kept struct {
	at    time.Time     // when it was written to the present connection; zero: not yet
	lived time.Duration // total time that former connections lasted after it was written to them
	text  []byte
}

const (
	facility   = 13 // log audit
	severity   = 6  // informational
	syslogTime = 5 * time.Second
	parting    = 2 * time.Second // for the remaining lines at the end
	// proven is twice syslogTime: data that is not acknowledged for syslogTime ends the connection.
	proven  = 2 * syslogTime
	appName = "netmaster"
	// room is for the lines that wait, and again for those that are kept, in bytes. Lines of usual texts are as many as
	// the queues take; one whose client chose its texts may be a hundred times as long.
	room = 64 << 20
)

// ports are the default ports of the kinds of targets.
var ports = map[string]string{"udp": "514", "tcp": "601", "tls": "6514"}

// SendTo sends a copy of each line to unix:///dev/log, or udp, tcp or tls://HOST[:PORT]. It must be called before
// Run.
func (l *Log) SendTo(target string) error {
	u, err := url.Parse(target)
	wanted := fault.New(fault.Invalid, "%q: want unix:///PATH, or udp, tcp or tls://HOST:PORT", target)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return wanted
	}
	if port, remote := ports[u.Scheme]; remote {
		if u.Hostname() == "" || u.Path != "" {
			return wanted
		}
		u.Host = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	} else if u.Scheme != "unix" || u.Host != "" || u.Path == "" {
		return wanted
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "-"
	}
	l.copies = append(l.copies, &syslog{
		target: u, tls: &tls.Config{ServerName: u.Hostname()}, log: l.log.WithField("syslog", target), host: host,
		waiting: make(chan []byte, waiting), proven: proven, redial: pacer(),
	})
	return nil
}

func pacer() *retry.Pacer { return retry.NewPacer(100*time.Millisecond, 10*time.Second) }

// add queues a line, and never blocks.
func (s *syslog) add(at time.Time, line []byte) {
	message := fmt.Appendf(nil, "<%d>1 %s %s %s %d audit - ", facility*8+severity, at.UTC().Format("2006-01-02T15:04:05.000000Z"), s.host, appName, os.Getpid())
	message = append(message, line...)
	if s.queued.Add(int64(len(message))) <= room {
		select {
		case s.waiting <- message:
			return
		default:
		}
	}
	s.queued.Add(-int64(len(message)))
	s.lost.add(1)
}

// taken notes that a message waits no more, and returns it.
func (s *syslog) taken(message []byte) []byte {
	s.queued.Add(-int64(len(message)))
	return message
}

// run sends lines until ctx ends, and then for a moment the remaining ones.
func (s *syslog) run(ctx context.Context) {
	defer s.hangUp()
	pace, last := pacer(), [][]byte(nil) // not sent when ctx ended
	for ctx.Err() == nil {
		select {
		case message := <-s.waiting:
			s.taken(message)
			if !s.retry(ctx, pace, func() error { return s.send(ctx, message) }) {
				last = append(last, message)
			}
		case <-s.ended:
			if s.hangUp(); len(s.kept) > 0 {
				s.retry(ctx, pace, func() error { return s.connected(ctx) })
			}
		case <-ctx.Done():
		}
		if n := s.lost.take(); n > 0 {
			s.log.WithField("lost", n).Error("audit: lines were not copied, as there were too many to wait")
		}
	}
	s.brief = false // there is no time to pause
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	for len(s.waiting) > 0 {
		last = append(last, s.taken(<-s.waiting))
	}
	for i, message := range last {
		if err := s.send(ending, message); err != nil {
			s.lost.add(int64(len(last) - i))
			s.log.WithError(err).WithField("lost", s.lost.take()).Error("audit: the last lines were not copied")
			return
		}
	}
}

// retry calls do until it succeeds; false if ctx ends before.
func (s *syslog) retry(ctx context.Context, pace *retry.Pacer, do func() error) bool {
	for ctx.Err() == nil {
		err := do()
		if err == nil {
			pace.Reset()
			return true
		}
		s.log.WithError(err).Warn("audit: the copy of a line is not taken, trying again")
		pace.Sleep(ctx)
	}
	return false
}

// send sends a message, on a new connection if there is none. If the connection breaks, the caller sends it again
// on the next one.
func (s *syslog) send(ctx context.Context, message []byte) error {
	if err := s.connected(ctx); err != nil {
		return err
	}
	if s.streams() {
		message = append(fmt.Appendf(nil, "%d ", len(message)), message...) // RFC 6587, octet counting
	}
	if err := s.write(message); err != nil || !s.streams() {
		return err
	}
	s.forget()
	s.kept = append(s.kept, kept{at: time.Now(), text: message})
	for s.size += len(message); len(s.kept) > waiting || s.size > room; s.crowded++ {
		s.dropFirst()
	}
	return nil
}

func (s *syslog) dropFirst() {
	s.size -= len(s.kept[0].text)
	s.kept = s.kept[1:]
}

func (s *syslog) streams() bool { return s.target.Scheme == "tcp" || s.target.Scheme == "tls" }

// connected opens a connection, unless there is one that the server has not closed, and sends again the messages
// that the last one may not have delivered. After a brief connection it waits first: the server may accept
// connections only to close them.
func (s *syslog) connected(ctx context.Context) (err error) {
	select {
	case <-s.ended:
		s.hangUp()
	default:
	}
	if s.conn != nil {
		return nil
	}
	if s.brief {
		s.log.WithField("kept", len(s.kept)).Warn("audit: the connection did not last, connecting again")
		s.redial.Sleep(ctx)
		s.brief = false
	}
	if s.conn, err = s.dial(ctx); err != nil {
		s.conn = nil
		return err
	}
	s.since = time.Now()
	if !s.streams() {
		return nil
	}
	conn, ended := s.conn, make(chan struct{})
	go func() { // until hangUp at the latest
		defer close(ended)
		_, _ = io.Copy(io.Discard, conn)
	}()
	s.ended = ended
	for i := range s.kept {
		if err := s.write(s.kept[i].text); err != nil {
			return err
		}
		s.kept[i].at = time.Now()
	}
	return nil
}

// age returns how long connections have lasted after the message was written to them.
func (k kept) age() time.Duration {
	if k.at.IsZero() {
		return k.lived
	}
	return k.lived + time.Since(k.at)
}

// forget drops the messages that count as read. They are the first ones.
func (s *syslog) forget() {
	for len(s.kept) > 0 && s.kept[0].age() > s.proven {
		s.dropFirst()
		s.crowded = 0
	}
}

// write writes to the connection, and closes it on an error.
func (s *syslog) write(message []byte) error {
	err := s.conn.SetWriteDeadline(time.Now().Add(syslogTime))
	if err == nil {
		_, err = s.conn.Write(message)
	}
	if err != nil {
		s.hangUp()
	}
	return err
}

// hangUp closes the connection, if there is one. Messages that the server may not have read are retained for the
// next connection.
func (s *syslog) hangUp() {
	if s.conn == nil {
		return
	}
	_ = s.conn.Close()
	if s.ended != nil {
		<-s.ended
	}
	s.conn, s.ended = nil, nil
	if !s.streams() {
		return
	}
	if s.brief = time.Since(s.since) <= s.proven; !s.brief {
		s.redial.Reset()
	}
	s.forget()
	for i := range s.kept {
		s.kept[i].at, s.kept[i].lived = time.Time{}, s.kept[i].age()
	}
	s.lost.add(s.crowded)
	s.crowded = 0
}

func (s *syslog) dial(ctx context.Context) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: syslogTime}
	if s.streams() {
		dialer.Control = setUserTimeout
	}
	switch s.target.Scheme {
	case "unix":
		return dialer.DialContext(ctx, "unixgram", s.target.Path)
	case "tls":
		return (&tls.Dialer{NetDialer: dialer, Config: s.tls}).DialContext(ctx, "tcp", s.target.Host)
	}
	return dialer.DialContext(ctx, s.target.Scheme, s.target.Host)
}

// setUserTimeout makes the kernel close a connection whose peer does not acknowledge data.
func setUserTimeout(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(syslogTime/time.Millisecond))
	})
	return errors.Join(err, failed)
}
