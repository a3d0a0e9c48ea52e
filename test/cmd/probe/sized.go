package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// sized is the size of a request and of its reply.
type sized struct {
	bytes int  // of the IP packet, before fragmentation; 0: the minimum
	whole bool // it must not be fragmented
}

// Sizes of IP headers without options, and of the header of an echo request or a datagram.
const (
	headers4 = 20 + 8
	headers6 = 40 + 8
)

// payload returns the size of a packet's payload; 0: any.
func (s sized) payload(to netip.Addr) int {
	if to.Is4() {
		return max(s.bytes-headers4, 0)
	}
	return max(s.bytes-headers6, 0)
}

func (s sized) ping(ctx context.Context, target string) (string, error) {
	to, err := netip.ParseAddr(target)
	if err != nil {
		return "", err
	}
	args := []string{"-c1", "-n", "-q"}
	if size := s.payload(to); size > 0 {
		args = append(args, "-s", strconv.Itoa(size))
	}
	if s.whole {
		args = append(args, "-M", "do")
	}
	if err := exec.CommandContext(ctx, "ping", append(args, target)...).Run(); err != nil {
		return "", err
	}
	return "pong", nil
}

// datagram sends one request: a lost request is a result, too.
func (s sized) datagram(ctx context.Context, target string) (string, error) {
	to, err := netip.ParseAddrPort(target)
	if err != nil {
		return "", err
	}
	dialer := net.Dialer{Control: s.control}
	conn, err := dialer.DialContext(ctx, "udp", target)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	question := padded(whoAreYou, s.payload(to.Addr()))
	if _, err := conn.Write(question); err != nil {
		return "", err
	}
	answer := make([]byte, maxDatagram)
	n, err := conn.Read(answer)
	if err != nil {
		return "", err
	}
	if s.bytes > 0 && n != len(question) {
		return "", fmt.Errorf("%s answers %d bytes with %d", target, len(question), n)
	}
	return string(bytes.TrimRight(answer[:n], "\x00")), nil
}

// control disables fragmentation by the kernel for packets that have to stay whole, whatever path MTU it knows.
func (s sized) control(network, _ string, raw syscall.RawConn) error {
	if !s.whole {
		return nil
	}
	level, option, never := unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO
	if network == "udp6" {
		level, option, never = unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), level, option, never) }); err != nil {
		return err
	}
	return failed
}

// padded returns a text, padded with zeros to a size unless it is longer.
func padded(text string, size int) []byte {
	return append([]byte(text), make([]byte, max(size-len(text), 0))...)
}
