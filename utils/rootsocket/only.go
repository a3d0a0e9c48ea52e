package rootsocket

import (
	"net"
	"sync"

	"github.com/sirupsen/logrus"
)

// Listener accepts connections of root only, up to a number at a time.
type Listener struct {
	*Socket
	open   chan struct{} // has a slot per connection
	closed chan struct{}
	once   sync.Once
}

// Conn is a connection of root. Closing it releases its slot.
type Conn struct {
	*net.UnixConn
	release func()
}

// ListenOnly is Listen for root only, whatever the mode of the file becomes, with at most limit connections at a
// time: a further one waits until one of them is closed.
func ListenOnly(path string, limit int, log *logrus.Entry) (*Listener, error) {
	s, err := Listen(path, log)
	if err != nil {
		return nil, err
	}
	return &Listener{Socket: s, open: make(chan struct{}, limit), closed: make(chan struct{})}, nil
}

// Accept returns a *Conn.
func (l *Listener) Accept() (net.Conn, error) {
	conn, err := l.AcceptRoot()
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// AcceptRoot returns the next connection of root. Others are closed.
func (l *Listener) AcceptRoot() (*Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := l.acceptUnix()
		if err != nil {
			<-l.open
			return nil, err
		}
		if ByRoot(conn) {
			return &Conn{conn, sync.OnceFunc(func() { <-l.open })}, nil
		}
		l.log.Warnf("connection refused: only root may use %s", l.Addr())
		if err := conn.Close(); err != nil {
			l.log.WithError(err).Debug("close refused connection")
		}
	}
}

// Close ends Accept, even while it waits for a slot.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Socket.Close()
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	defer c.release()
	return c.UnixConn.Close()
}
