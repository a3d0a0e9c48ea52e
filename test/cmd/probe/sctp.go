package main

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
)

// A request by SCTP is one packet, and so is its reply: the common header (RFC 9260, section 3.1) and a text in
// place of chunks. It matches ports as any other packet does, and needs no SCTP in the kernel.

const sctpHeader = 12 // two ports, a tag and a checksum, which are ignored

// firstSCTPPort and those above it are the ports of clients, one per request.
const firstSCTPPort = 40000

var networksOfSCTP = []string{"ip4:132", "ip6:132"}

func sctpPacket(from, to uint16, text string) []byte {
	packet := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(make([]byte, 0, sctpHeader+len(text)), from), to)
	return append(append(packet, make([]byte, sctpHeader-len(packet))...), text...)
}

// sctpText returns the text of a packet between two ports; 0 is any port.
func sctpText(packet []byte, from, to uint16) (text string, source uint16, ok bool) {
	if len(packet) < sctpHeader {
		return "", 0, false
	}
	source = binary.BigEndian.Uint16(packet)
	ok = (from == 0 || source == from) && binary.BigEndian.Uint16(packet[2:]) == to
	return string(packet[sctpHeader:]), source, ok
}

// associations sends requests by SCTP.
type associations struct{ asked atomic.Uint32 }

func (a *associations) ask(ctx context.Context, target string) (string, error) {
	to, err := netip.ParseAddrPort(target)
	if err != nil {
		return "", err
	}
	network := networksOfSCTP[0]
	if to.Addr().Is6() {
		network = networksOfSCTP[1]
	}
	conn, err := net.DialIP(network, nil, &net.IPAddr{IP: to.Addr().AsSlice()})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	own := uint16(firstSCTPPort + a.asked.Add(1))
	if _, err := conn.Write(sctpPacket(own, to.Port(), whoAreYou)); err != nil {
		return "", err
	}
	for answer := make([]byte, 1500); ; {
		n, _, err := conn.ReadFrom(answer) // a raw socket receives the packets of all of them
		if err != nil {
			return "", err
		}
		if text, _, ok := sctpText(answer[:n], to.Port(), own); ok {
			return text, nil
		}
	}
}

// listenSCTP receives the packets to the machine of both IP families.
func listenSCTP() (all []net.PacketConn, err error) {
	for _, network := range networksOfSCTP {
		conn, err := net.ListenPacket(network, "")
		if err != nil {
			for _, open := range all {
				err = errors.Join(err, open.Close())
			}
			return nil, err
		}
		all = append(all, conn)
	}
	return all, nil
}

// serveSCTP answers requests to a port with its name.
func serveSCTP(conn net.PacketConn, port, name string) error {
	own, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return err
	}
	for packet := make([]byte, 1500); ; {
		n, peer, err := conn.ReadFrom(packet)
		if err != nil {
			return err
		}
		text, source, ok := sctpText(packet[:n], 0, uint16(own))
		if !ok || text != whoAreYou {
			continue
		}
		if _, err := conn.WriteTo(sctpPacket(uint16(own), source, name), peer); err != nil {
			return err
		}
	}
}
