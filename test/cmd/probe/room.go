package main

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// roomForDatagrams is the socket buffer of a probe that has to wait for a processor on a busy machine: otherwise
// the probe, not the tested system, would lose datagrams. In bytes; a small datagram takes almost a thousand.
const roomForDatagrams = 4 << 20

// makeRoom sets that size, beyond the machine's limit for users without privileges.
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
