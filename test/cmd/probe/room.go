package main

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// roomForDatagrams is what a socket may hold for a probe that has to wait for its turn
// on a busy machine: what is lost then is lost by the probe, not by who is tested. In
// bytes; a small datagram takes almost a thousand.
const roomForDatagrams = 4 << 20

// makeRoom gives a socket that room, whatever the machine allows those who are not root.
func makeRoom(conn *net.UDPConn) error {
	socket, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	if err := socket.Control(func(fd uintptr) {
		refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, roomForDatagrams)
	}); err != nil {
		return err
	}
	if refused != nil {
		return fmt.Errorf("receive buffer of %d bytes at %s: %w", roomForDatagrams, conn.LocalAddr(), refused)
	}
	return nil
}
