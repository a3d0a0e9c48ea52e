package rootsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/logging"
)

// lookTime is the interval of checks of the socket's file while no client connects.
const lookTime = time.Second

// Socket listens on a unix socket whose file only root may use. If the file is removed, as by programs that clean
// /run, Accept creates it again.
type Socket struct {
	path    string
	log     *logrus.Entry
	trouble logging.Trouble // why the file cannot be created again

	mu     sync.Mutex
	now    *net.UnixListener
	closed bool
}

// Listen creates the file, and its directory if necessary. The file of a server that has died is replaced. If a
// server listens on it, or it is not a socket, the error is a fault.Conflict.
func Listen(path string, log *logrus.Entry) (*Socket, error) {
	l, err := listen(path)
	if err != nil {
		return nil, err
	}
	return &Socket{path: path, log: log, now: l}, nil
}

func listen(path string) (*net.UnixListener, error) {
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("restrict %s: %w", path, err), l.Close())
	}
	return l, nil
}

// Addr implements net.Listener.
func (s *Socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// Accept returns a *net.UnixConn.
func (s *Socket) Accept() (net.Conn, error) {
	conn, err := s.acceptUnix()
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// acceptUnix returns the next connection. The error is net.ErrClosed after Close.
func (s *Socket) acceptUnix() (*net.UnixConn, error) {
	for {
		l, err := s.listener()
		if err != nil {
			return nil, err
		}
		if err := l.SetDeadline(time.Now().Add(lookTime)); err != nil {
			return nil, err
		}
		conn, err := l.AcceptUnix()
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
			return conn, err
		}
	}
}

// listener returns the present listener, or a new one if the file was removed. A foreign file is not replaced.
func (s *Socket) listener() (*net.UnixListener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, net.ErrClosed
	}
	if _, err := os.Lstat(s.path); !errors.Is(err, fs.ErrNotExist) {
		return s.now, nil
	}
	l, err := listen(s.path)
	if err != nil {
		if s.trouble.IsNews(err, time.Now()) {
			s.log.WithError(err).Error("the file of a socket was removed and cannot be made anew, trying again")
		}
		return s.now, nil
	}
	s.trouble.Over()
	s.log.WithField("socket", s.path).Warn("the file of a socket was removed, and is made anew")
	s.now.SetUnlinkOnClose(false) // the file belongs to the new one
	old := s.now
	s.now = l
	return l, old.Close()
}

// Close ends Accept and removes the file.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.now.Close()
}
