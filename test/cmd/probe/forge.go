package main

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// maxForgeries limits what one run sends.
const maxForgeries = 1000

// forge writes frames to a link with any source addresses, as its owner can. A frame carries a datagram or, with
// -arp, an ARP announcement of the source address.
func forge(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("forge", flag.ContinueOnError)
	device := flags.String("dev", "eth0", "link to write to")
	var f frame
	flags.Func("eth-src", "MAC address", parseMAC(&f.ethSrc))
	flags.Func("eth-dst", "MAC address", parseMAC(&f.ethDst))
	flags.TextVar(&f.ipSrc, "ip-src", netip.Addr{}, "address")
	flags.TextVar(&f.ipDst, "ip-dst", netip.Addr{}, "address")
	port := flags.Uint("port", 7, "UDP port, of both sides")
	arp := flags.Bool("arp", false, "an ARP announcement instead of a datagram")
	count := flags.Int("count", 1, "frames to send")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *count < 1 || *count > maxForgeries || len(f.ethSrc) != 6 || len(f.ethDst) != 6 || !f.ipSrc.Is4() || !f.ipDst.Is4() {
		return errors.New("forge: want both MAC addresses, both IPv4 addresses and a count up to 1000")
	}
	bytes := f.datagram(uint16(*port))
	if *arp {
		bytes = f.announcement()
	}
	link, err := net.InterfaceByName(*device)
	if err != nil {
		return err
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	defer unix.Close(socket)
	for range *count {
		if err := unix.Sendto(socket, bytes, 0, &unix.SockaddrLinklayer{Ifindex: link.Index}); err != nil {
			return fmt.Errorf("write to %s: %w", *device, err)
		}
	}
	return nil
}

func parseMAC(into *net.HardwareAddr) func(string) error {
	return func(text string) (err error) {
		*into, err = net.ParseMAC(text)
		return err
	}
}

// frame has the claimed source and the destination of a frame.
type frame struct {
	ethSrc, ethDst net.HardwareAddr
	ipSrc, ipDst   netip.Addr
}

func (f frame) ethernet(etherType uint16) []byte {
	head := append(append([]byte{}, f.ethDst...), f.ethSrc...)
	return binary.BigEndian.AppendUint16(head, etherType)
}

// datagram returns a frame with Ethernet, IPv4 and UDP headers.
func (f frame) datagram(port uint16) []byte {
	return append(f.ethernet(unix.ETH_P_IP), f.ipv4(unix.IPPROTO_UDP, udp(port, port, []byte(forged)))...)
}

// ipv4 returns a packet with the flag "don't fragment".
func (f frame) ipv4(protocol byte, payload []byte) []byte {
	length := uint16(20 + len(payload))
	ip := []byte{0x45, 0, byte(length >> 8), byte(length), 0, 0, 0x40, 0, 64, protocol, 0, 0}
	src, dst := f.ipSrc.As4(), f.ipDst.As4()
	ip = append(append(ip, src[:]...), dst[:]...)
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	return append(ip, payload...)
}

// udp returns a datagram without a checksum, which IPv4 permits.
func udp(from, to uint16, payload []byte) []byte {
	head := binary.BigEndian.AppendUint16(nil, from)
	head = binary.BigEndian.AppendUint16(head, to)
	head = binary.BigEndian.AppendUint16(head, uint16(8+len(payload)))
	return append(append(head, 0, 0), payload...)
}

// checksum returns the checksum of RFC 1071 over an even number of bytes.
func checksum(data []byte) uint16 {
	var sum uint32
	for i := 0; i < len(data); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(data[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// announcement returns a broadcast ARP reply that maps the source address to the source MAC.
func (f frame) announcement() []byte {
	arp := []byte{0, 1, 8, 0, 6, 4, 0, 2}
	src, dst := f.ipSrc.As4(), f.ipDst.As4()
	arp = append(append(arp, f.ethSrc...), src[:]...)
	arp = append(append(arp, f.ethDst...), dst[:]...)
	return append(f.ethernet(unix.ETH_P_ARP), arp...)
}
