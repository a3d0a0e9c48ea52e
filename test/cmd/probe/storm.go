package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	stormLink  = "eth0"
	stormPause = time.Millisecond // at least, with a rate
	stormBatch = 64               // packets between two checks of the time, at most
)

// stormReport is the output of storm.
type stormReport struct {
	Sent    int     `json:"sent"`
	Seconds float64 `json:"seconds"`
}

// storm sends packets of a kind, at a rate or as many as possible, whether or not they are received, until its
// time is over.
func storm(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("storm", flag.ContinueOnError)
	name := flags.String("kind", "udp", "of packets")
	var to netip.Addr
	flags.TextVar(&to, "to", netip.Addr{}, "address that it is about")
	rate := flags.Float64("rate", 0, "packets per second; 0: as many as there can be")
	limit := flags.Duration("for", 5*time.Second, "how long")
	if err := flags.Parse(args); err != nil {
		return err
	}
	kind, found := packetKinds[*name]
	if !found || !to.IsValid() || *rate < 0 || *limit > longestFlood {
		return errors.New("storm: want a known kind, an address, and at most a minute")
	}
	link, err := net.InterfaceByName(stormLink)
	if err != nil {
		return err
	}
	from, err := addressOf(link, to)
	if err != nil {
		return err
	}
	send, closeSocket, err := kind.open(link, to)
	if err != nil {
		return fmt.Errorf("storm: socket: %w", err)
	}
	defer closeSocket()
	f := frame{ethSrc: link.HardwareAddr, ipSrc: from, ipDst: to}
	began, sent := time.Now(), 0
	for past := time.Duration(0); past < *limit && ctx.Err() == nil; past = time.Since(began) {
		due := sent + stormBatch
		if *rate > 0 {
			if due = min(due, int(past.Seconds()**rate)); due == sent {
				select {
				case <-ctx.Done():
				case <-time.After(stormPause):
				}
			}
		}
		for ; sent < due; sent++ {
			_ = send(kind.packet(f, sent)) // a receiver is not required
		}
	}
	return json.NewEncoder(os.Stdout).Encode(stormReport{sent, time.Since(began).Seconds()})
}

// addressOf returns an address of a link that has the IP family of another one, and is not link-local.
func addressOf(link *net.Interface, like netip.Addr) (netip.Addr, error) {
	addresses, err := link.Addrs()
	if err != nil {
		return netip.Addr{}, err
	}
	for _, a := range addresses {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() == like.Is4() && !p.Addr().IsLinkLocalUnicast() {
			return p.Addr(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("storm: %s has no address to send from to %s", link.Name, like)
}

// open returns a function that sends frames to the link, or IPv4 packets through the kernel's routing.
func (k packetKind) open(link *net.Interface, to netip.Addr) (send func([]byte) error, closeSocket func() error, err error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_RAW
	var address unix.Sockaddr
	if k.frames {
		family, protocol, address = unix.AF_PACKET, 0, &unix.SockaddrLinklayer{Ifindex: link.Index}
	} else if to.Is4() {
		address = &unix.SockaddrInet4{Addr: to.As4()}
	} else {
		return nil, nil, fmt.Errorf("%s: want an IPv4 address", to)
	}
	socket, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, nil, err
	}
	if !k.frames { // fragmentation off, even if the kernel knows a smaller path MTU
		if err := unix.SetsockoptInt(socket, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE); err != nil {
			return nil, nil, errors.Join(err, unix.Close(socket))
		}
	}
	return func(packet []byte) error { return unix.Sendto(socket, packet, 0, address) },
		func() error { return unix.Close(socket) }, nil
}
