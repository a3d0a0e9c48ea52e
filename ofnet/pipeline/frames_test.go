package pipeline

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Frames are built and parsed by hand, so that a test can send frames that no kernel would send and compare every
// byte of those that arrive.

type mac = [6]byte

var broadcast = mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

func ethernet(dst, src mac, ethType uint16, payload ...[]byte) []byte {
	frame := append(append([]byte{}, dst[:]...), src[:]...)
	frame = binary.BigEndian.AppendUint16(frame, ethType)
	return append(frame, bytes.Join(payload, nil)...)
}

// arpFrame returns a broadcast ARP request.
func arpFrame(sha mac, spa, tpa netip.Addr) []byte {
	return ethernet(broadcast, sha, 0x0806,
		[]byte{0, 1, 8, 0, 6, 4, 0, 1}, sha[:], spa.AsSlice(), make([]byte, 6), tpa.AsSlice())
}

// udpFrame returns a UDP datagram to the discard port with a text in it.
func udpFrame(dst, src mac, to, from netip.Addr, text string) []byte {
	udp := make([]byte, 8, 8+len(text))
	binary.BigEndian.PutUint16(udp[0:], 40000)
	binary.BigEndian.PutUint16(udp[2:], 9)
	binary.BigEndian.PutUint16(udp[4:], uint16(8+len(text)))
	udp = append(udp, text...)
	if from.Is6() {
		return ipv6Frame(dst, src, to, from, 17, 64, 6, udp)
	}
	header := []byte{0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0}
	header = append(append(header, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(header[2:], uint16(20+len(udp)))
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return ethernet(dst, src, 0x0800, header, udp) // UDP checksum 0: not computed
}

// echoFrame returns a ping.
func echoFrame(dst, src mac, to, from netip.Addr) []byte {
	icmp := []byte{8, 0, 0, 0, 0, 1, 0, 1}
	binary.BigEndian.PutUint16(icmp[2:], checksum(icmp))
	header := []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 64, 1, 0, 0}
	header = append(append(header, from.AsSlice()...), to.AsSlice()...)
	binary.BigEndian.PutUint16(header[10:], checksum(header))
	return ethernet(dst, src, 0x0800, header, icmp)
}

// ipv6Frame returns an IPv6 packet, with the checksum set at an offset of the payload.
func ipv6Frame(dst, src mac, to, from netip.Addr, protocol, hops byte, checksumAt int, payload []byte) []byte {
	header := []byte{0x60, 0, 0, 0, 0, 0, protocol, hops}
	binary.BigEndian.PutUint16(header[4:], uint16(len(payload)))
	addresses := append(from.AsSlice(), to.AsSlice()...)
	pseudo := append(append([]byte{}, addresses...), 0, 0, 0, byte(len(payload)), 0, 0, 0, protocol)
	binary.BigEndian.PutUint16(payload[checksumAt:], checksum(append(pseudo, payload...)))
	return ethernet(dst, src, 0x86dd, header, addresses, payload)
}

// fragments splits an IP packet into fragments of at most mtu bytes.
func fragments(frame []byte, mtu int) (parts [][]byte) {
	const moreFragments = 0x2000
	header := frame[14:34]
	if header[0]>>4 == 6 {
		header = frame[14:54]
	}
	payload := frame[14+len(header):]
	for from := 0; from < len(payload); {
		ip := bytes.Clone(header)
		if len(header) == 40 {
			ip[6] = 44
			ip = append(ip, header[6], 0, 0, 0, 0, 0, header[2], header[3]) // the number is in the flow label
		}
		to := min(from+(mtu-len(ip))&^7, len(payload))
		more := uint16(0)
		if to < len(payload) {
			more = 1
		}
		if len(header) == 40 {
			binary.BigEndian.PutUint16(ip[4:], uint16(8+to-from))
			binary.BigEndian.PutUint16(ip[42:], uint16(from)|more)
		} else {
			binary.BigEndian.PutUint16(ip[2:], uint16(20+to-from))
			binary.BigEndian.PutUint16(ip[6:], uint16(from/8)|more*moreFragments)
			binary.BigEndian.PutUint16(ip[10:], 0)
			binary.BigEndian.PutUint16(ip[10:], checksum(ip))
		}
		parts = append(parts, bytes.Join([][]byte{frame[:14], ip, payload[from:to]}, nil))
		from = to
	}
	return parts
}

// solicitationFrame returns a neighbour solicitation to the target's multicast address, with the sender's MAC as
// an option if withOption.
func solicitationFrame(src mac, from, target netip.Addr, withOption bool) []byte {
	tail := target.As16()
	group := [16]byte{0: 0xff, 1: 0x02, 11: 0x01, 12: 0xff, 13: tail[13], 14: tail[14], 15: tail[15]}
	body := append([]byte{135, 0, 0, 0, 0, 0, 0, 0}, tail[:]...)
	if withOption {
		body = append(append(body, 1, 1), src[:]...)
	}
	return ipv6Frame(mac{0x33, 0x33, 0xff, tail[13], tail[14], tail[15]}, src, netip.AddrFrom16(group), from, 58, 255, 2, body)
}

func checksum(b []byte) uint16 {
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	var sum uint32
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// wire is a pod's end of its link: raw frames in both directions.
type wire struct {
	pod *pod
	fd  int
}

func (p *pod) wire() *wire {
	p.t.Helper()
	return p.wireAt("eth0")
}

// underlay returns the cable between a node and the other one.
func (n *node) underlay(t *testing.T) *wire {
	t.Helper()
	return (&pod{Endpoint: Endpoint{ID: "node " + n.vtep.String()}, t: t, netns: n.Netns}).wireAt("uplink")
}

func (p *pod) wireAt(link string) *wire {
	p.t.Helper()
	w := &wire{pod: p, fd: -1}
	err := p.inside(func() (err error) {
		const allProtocols = 0x0300 // ETH_P_ALL in network byte order
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, allProtocols); err != nil {
			return err
		}
		at, err := net.InterfaceByName(link)
		if err != nil {
			return err
		}
		if err = unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: at.Index}); err != nil {
			return err
		}
		return unix.SetsockoptTimeval(w.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 20_000})
	})
	if err != nil {
		p.t.Fatalf("wire of %s: %v", p.ID, err)
	}
	p.t.Cleanup(func() { _ = unix.Close(w.fd) })
	return w
}

func (w *wire) send(frame []byte) {
	w.pod.t.Helper()
	if _, err := unix.Write(w.fd, frame); err != nil {
		w.pod.t.Fatalf("%s sends %x: %v", w.pod.ID, frame, err)
	}
}

// receive returns the first frame from the switch that fits; nil if none arrives in time.
func (w *wire) receive(within time.Duration, fits func([]byte) bool) []byte {
	w.pod.t.Helper()
	buffer := make([]byte, 2048)
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		n, from, err := unix.Recvfrom(w.fd, buffer, 0)
		if err == unix.EAGAIN || err == unix.EINTR {
			continue
		}
		if err != nil {
			w.pod.t.Fatalf("%s receives: %v", w.pod.ID, err)
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if ok && link.Pkttype != unix.PACKET_OUTGOING && fits(buffer[:n]) {
			return bytes.Clone(buffer[:n])
		}
	}
	return nil
}

// carrying returns a filter for frames with a text in them.
func carrying(text string) func([]byte) bool {
	return func(frame []byte) bool { return bytes.Contains(frame, []byte(text)) }
}
