package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// marks captures datagrams on a link and prints how many there are of each DSCP, by the outermost header.
func marks(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("marks", flag.ContinueOnError)
	device := flags.String("dev", "eth0", "link to read from")
	port := flags.Int("port", 7, "UDP port they are for")
	count := flags.Int("count", 100, "datagrams to look at")
	wait := flags.Duration("wait", 5*time.Second, "how long to wait for them")
	if err := flags.Parse(args); err != nil {
		return err
	}
	link, err := net.InterfaceByName(*device)
	if err != nil {
		return err
	}
	const allProtocols = 0x0300 // ETH_P_ALL in network byte order
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, allProtocols)
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	defer unix.Close(socket)
	if err := unix.Bind(socket, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: link.Index}); err != nil {
		return fmt.Errorf("read from %s: %w", *device, err)
	}
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000}); err != nil {
		return err
	}
	seen, buffer := map[int]int{}, make([]byte, 2048)
	for deadline := time.Now().Add(*wait); *count > 0 && ctx.Err() == nil && time.Now().Before(deadline); {
		n, from, err := unix.Recvfrom(socket, buffer, 0)
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read from %s: %w", *device, err)
		}
		sender, ok := from.(*unix.SockaddrLinklayer)
		if dscp, to := markOf(buffer[:n]); ok && sender.Pkttype != unix.PACKET_OUTGOING && to == *port {
			seen[dscp]++
			*count--
		}
	}
	return json.NewEncoder(os.Stdout).Encode(seen)
}

// markOf returns the DSCP and the UDP port of a frame; port 0 if it has none.
func markOf(frame []byte) (dscp, port int) {
	const ethernet, udp = 14, 17
	if len(frame) < ethernet+20 {
		return 0, 0
	}
	ip := frame[ethernet:]
	switch binary.BigEndian.Uint16(frame[12:]) {
	case unix.ETH_P_IP:
		if header := int(ip[0]&0xf) * 4; ip[9] == udp && len(ip) >= header+4 {
			return int(ip[1]) >> 2, int(binary.BigEndian.Uint16(ip[header+2:]))
		}
	case unix.ETH_P_IPV6:
		if len(ip) >= 44 && ip[6] == udp {
			return int(binary.BigEndian.Uint16(ip)>>4&0xff) >> 2, int(binary.BigEndian.Uint16(ip[42:]))
		}
	}
	return 0, 0
}
