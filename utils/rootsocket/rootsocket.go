// Package rootsocket creates unix sockets for the machine's root user only.
package rootsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
)

func removeStale(path string) error {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket %s: %w", path, err)
	case info.Mode().Type() != fs.ModeSocket:
		return fault.New(fault.Conflict, "socket %s: a file that is no socket is in the way", path)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		return errors.Join(fault.New(fault.Conflict, "socket %s: another server is listening", path), conn.Close())
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove stale socket: %w", err)
	}
	return nil
}

// Peer returns the process that has opened a connection, and its user. The mode of the file restricts who may
// connect, but a descriptor may have been passed on.
func Peer(conn *net.UnixConn) (who *unix.Ucred, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	control := raw.Control(func(fd uintptr) {
		who, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(control, err); err != nil {
		return nil, fmt.Errorf("credentials of the peer: %w", err)
	}
	return who, nil
}

// ByRoot reports whether root has opened a connection, on a unix socket.
func ByRoot(conn net.Conn) bool {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return false
	}
	who, err := Peer(local)
	return err == nil && who.Uid == 0
}
