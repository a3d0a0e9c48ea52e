package k8splugin

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/durable"
)

// listen opens the server's socket: reachable only for root, at most limit
// connections at a time. A socket file without a server behind it is replaced;
// one with a server is not stolen.
func listen(path string, limit int, log *logrus.Entry) (net.Listener, error) {
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
	return &rootOnly{UnixListener: l, open: make(chan struct{}, limit), closed: make(chan struct{}), log: log}, nil
}

func removeStale(path string) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("socket %s: a file that is no socket is in the way", path)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		return errors.Join(fmt.Errorf("socket %s: another server is listening", path), conn.Close())
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}

// rootOnly accepts connections of root only, and so many at a time. The file
// mode says the same, but a descriptor may have been passed on.
type rootOnly struct {
	*net.UnixListener
	open   chan struct{} // a place for each connection
	closed chan struct{}
	once   sync.Once
	log    *logrus.Entry
}

// Accept returns a *descriptorConn.
func (l *rootOnly) Accept() (net.Conn, error) {
	select {
	case l.open <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			<-l.open
			return nil, err
		}
		uid, err := peerUID(conn)
		if err == nil && uid == 0 {
			return &descriptorConn{UnixConn: conn, release: sync.OnceFunc(func() { <-l.open })}, nil
		}
		l.log.WithError(err).WithField("uid", uid).Warn("connection refused: only root may attach containers")
		if err := conn.Close(); err != nil {
			l.log.WithError(err).Debug("close refused connection")
		}
	}
}

// Close ends Accept also while it waits for a connection to be closed.
func (l *rootOnly) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.UnixListener.Close()
}

func peerUID(conn *net.UnixConn) (uid uint32, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	control := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(control, err); err != nil {
		return 0, fmt.Errorf("credentials of the peer: %w", err)
	}
	return cred.Uid, nil
}
