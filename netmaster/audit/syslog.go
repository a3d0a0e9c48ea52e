package audit

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// syslog sends lines to a server of syslog (RFC 5424): to a socket of this machine, such as that of journald, by UDP
// (RFC 5426), by TCP or by TLS (RFC 5425). The file does not wait for it: what finds no room while the
// server is away is counted, and misses in the chain of hashes.
type syslog struct {
	target  *url.URL
	tls     *tls.Config
	log     *logrus.Entry
	host    string
	waiting chan []byte
	lost    atomic.Int64
	conn    net.Conn // of run; nil: none
}

const (
	facility   = 13 // log audit
	severity   = 6  // informational
	syslogTime = 5 * time.Second
	parting    = 2 * time.Second // for what is left at the end
	appName    = "netmaster"
)

// ports are those of the kinds of targets.
var ports = map[string]string{"udp": "514", "tcp": "601", "tls": "6514"}

// SendTo has a copy of each line sent to unix:///dev/log, or udp, tcp or tls://HOST[:PORT]. It is called before Run.
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
	l.copies = append(l.copies, &syslog{target: u, tls: &tls.Config{ServerName: u.Hostname()}, log: l.log.WithField("syslog", target), host: host, waiting: make(chan []byte, waiting)})
	return nil
}

// add takes a line, and never blocks.
func (s *syslog) add(at time.Time, line []byte) {
	message := fmt.Appendf(nil, "<%d>1 %s %s %s %d audit - ", facility*8+severity, at.UTC().Format("2006-01-02T15:04:05.000000Z"), s.host, appName, os.Getpid())
	select {
	case s.waiting <- append(message, line...):
	default:
		s.lost.Add(1)
	}
}

// run sends lines until ctx ends, and what is left for a moment then.
func (s *syslog) run(ctx context.Context) {
	defer func() {
		if s.conn != nil {
			_ = s.conn.Close()
		}
	}()
	pace := retry.NewPacer(100*time.Millisecond, 10*time.Second)
	for ctx.Err() == nil {
		select {
		case message := <-s.waiting:
			for ctx.Err() == nil {
				err := s.send(ctx, message)
				if err == nil {
					pace.Reset()
					break
				}
				s.log.WithError(err).Warn("audit: the copy of a line is not taken, trying again")
				pace.Sleep(ctx)
			}
			if n := s.lost.Swap(0); n > 0 {
				s.log.WithField("lost", n).Error("audit: lines were not copied, as there were too many to wait")
			}
		case <-ctx.Done():
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
	defer cancel()
	for {
		select {
		case message := <-s.waiting:
			if s.send(ending, message) != nil {
				return
			}
		default:
			return
		}
	}
}

// send sends a message, on a new connection if there is none. One whose connection breaks is sent again on the next one, by
// the caller.
func (s *syslog) send(ctx context.Context, message []byte) (err error) {
	if s.conn == nil {
		if s.conn, err = s.dial(ctx); err != nil {
			s.conn = nil
			return err
		}
	}
	if s.target.Scheme == "tcp" || s.target.Scheme == "tls" {
		message = append(fmt.Appendf(nil, "%d ", len(message)), message...) // RFC 6587, octet counting
	}
	if err = s.conn.SetWriteDeadline(time.Now().Add(syslogTime)); err == nil {
		_, err = s.conn.Write(message)
	}
	if err != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
	return err
}

func (s *syslog) dial(ctx context.Context) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: syslogTime}
	switch s.target.Scheme {
	case "unix":
		return dialer.DialContext(ctx, "unixgram", s.target.Path)
	case "tls":
		return (&tls.Dialer{NetDialer: dialer, Config: s.tls}).DialContext(ctx, "tcp", s.target.Host)
	}
	return dialer.DialContext(ctx, s.target.Scheme, s.target.Host)
}
