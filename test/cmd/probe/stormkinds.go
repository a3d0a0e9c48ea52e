package main

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

const (
	stormPort    = 9000
	stormPorts   = 8       // of a service, from stormPort on: half a million connections with all ports of a client
	firstClient  = 1 << 10 // port
	clientPorts  = 1<<16 - firstClient
	shortPayload = 22 // bytes
	longPayload  = 3000
)

// packetKind is a kind of packets that may be harmful to others in large numbers.
type packetKind struct {
	frames bool                        // packet returns Ethernet frames; false: IPv4 packets
	packet func(f frame, i int) []byte // the i-th one, from the source of f to its destination
}

var packetKinds = map[string]packetKind{
	"udp":       {false, func(f frame, _ int) []byte { return f.datagrams(stormPort, stormPort, shortPayload) }},
	"toobig":    {false, func(f frame, _ int) []byte { return f.datagrams(stormPort, stormPort, longPayload) }},
	"flows":     {false, newFlow},
	"syn":       {false, newConnection},
	"arp":       {true, request},
	"nd":        {true, solicitation},
	"unicast":   {true, unknownUnicast},
	"broadcast": {true, broadcast},
	"echo":      {false, func(f frame, i int) []byte { return f.ipv4(unix.IPPROTO_ICMP, echoRequest(uint16(i))) }},
	"dns":       {false, question},
	"headers":   {true, anyHeaders},
}

func (f frame) datagrams(from, to uint16, bytes int) []byte {
	return f.ipv4(unix.IPPROTO_UDP, udp(from, to, make([]byte, bytes)))
}

func clientPort(i int) uint16 { return uint16(firstClient + i%clientPorts) }

// newFlow returns a datagram from another port than those before.
func newFlow(f frame, i int) []byte {
	return f.datagrams(clientPort(i), uint16(stormPort+i/clientPorts%stormPorts), shortPayload)
}

// newConnection returns a TCP SYN from another port than those before.
func newConnection(f frame, i int) []byte {
	const withoutOptions, syn = 5 << 4, 2
	tcp := binary.BigEndian.AppendUint16(nil, clientPort(i))
	tcp = binary.BigEndian.AppendUint16(tcp, stormPort)
	tcp = append(tcp, 0, 0, 0, 1, 0, 0, 0, 0, withoutOptions, syn, 0xff, 0xff, 0, 0, 0, 0)
	binary.BigEndian.PutUint16(tcp[16:], f.checksumOf(unix.IPPROTO_TCP, tcp))
	return f.ipv4(unix.IPPROTO_TCP, tcp)
}

// checksumOf returns the checksum of a transport's segment with an even length, with the pseudo header.
func (f frame) checksumOf(protocol byte, segment []byte) uint16 {
	pseudo := append(append(f.ipSrc.AsSlice(), f.ipDst.AsSlice()...), 0, protocol)
	pseudo = binary.BigEndian.AppendUint16(pseudo, uint16(len(segment)))
	return checksum(append(pseudo, segment...))
}

// asked returns the target of the i-th request: the destination of f, or another address near it.
func asked(f frame, i int) netip.Addr {
	a := f.ipDst.AsSlice()
	if i%2 == 1 {
		binary.BigEndian.PutUint16(a[len(a)-2:], uint16(i))
	}
	address, _ := netip.AddrFromSlice(a)
	return address
}

// request returns an ARP request.
func request(f frame, i int) []byte {
	f.ethDst, f.ipDst = everybody(), asked(f, i)
	frame := f.announcement()
	frame[21] = 1 // opcode: request
	return frame
}

// solicitation returns a neighbour solicitation.
func solicitation(f frame, i int) []byte {
	const kind, sourceLink, hopLimit = 135, 1, 255
	target := asked(f, i).As16()
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], target[13:])
	f.ipDst, f.ethDst = netip.AddrFrom16(group), append(net.HardwareAddr{0x33, 0x33}, group[12:]...)
	icmp := append([]byte{kind, 0, 0, 0, 0, 0, 0, 0}, target[:]...)
	icmp = append(append(icmp, sourceLink, 1), f.ethSrc...)
	binary.BigEndian.PutUint16(icmp[2:], f.checksumOf(unix.IPPROTO_ICMPV6, icmp))
	src := f.ipSrc.As16()
	ip := append(f.ethernet(unix.ETH_P_IPV6), 0x60, 0, 0, 0, 0, byte(len(icmp)), unix.IPPROTO_ICMPV6, hopLimit)
	return append(append(append(ip, src[:]...), group[:]...), icmp...)
}

// unknownUnicast returns a frame to an unused MAC address.
func unknownUnicast(f frame, i int) []byte {
	f.ethDst = binary.BigEndian.AppendUint32(net.HardwareAddr{0x06, 0}, uint32(i))
	return append(f.ethernet(unix.ETH_P_IP), f.datagrams(stormPort, stormPort, shortPayload)...)
}

func broadcast(f frame, _ int) []byte {
	f.ethDst, f.ipDst = everybody(), netip.AddrFrom4([4]byte{255, 255, 255, 255})
	return append(f.ethernet(unix.ETH_P_IP), f.datagrams(stormPort, stormPort, shortPayload)...)
}

// echoRequest returns a ping.
func echoRequest(number uint16) []byte {
	const kind, id = 8, 1
	icmp := binary.BigEndian.AppendUint16([]byte{kind, 0, 0, 0, 0, id}, number)
	binary.BigEndian.PutUint16(icmp[2:], checksum(icmp))
	return icmp
}

// question returns a DNS query for a new name.
func question(f frame, i int) []byte {
	const port, wanted, kind, class = 53, 1 << 8, 1, 1
	dns := binary.BigEndian.AppendUint16(nil, uint16(i))
	for _, word := range []uint16{wanted, 1, 0, 0, 0} {
		dns = binary.BigEndian.AppendUint16(dns, word)
	}
	name := strconv.Itoa(i)
	dns = append(append(append(dns, byte(len(name))), name...), 0)
	dns = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(dns, kind), class)
	return f.ipv4(unix.IPPROTO_UDP, udp(clientPort(i), port, dns))
}

// gatewayMAC is the MAC address of all gateways.
var gatewayMAC = net.HardwareAddr(pipeline.AnycastMAC[:])

// anyHeaders returns a packet whose destination, protocol and ports differ from those before it in many places: in
// as many leading bits as possible that distinguish a packet from what rules and routes match. One in four has a
// forged source.
func anyHeaders(f frame, i int) []byte {
	spread := func(salt, bits uint32) uint32 { return (uint32(i)*2654435761 + salt*40503) >> (32 - bits) }
	dst := f.ipDst.As4()
	binary.BigEndian.PutUint32(dst[:], binary.BigEndian.Uint32(dst[:])^1<<spread(1, 5))
	f.ethDst, f.ipDst = gatewayMAC, netip.AddrFrom4(dst)
	if i%4 == 3 {
		src := f.ipSrc.As4()
		binary.BigEndian.PutUint32(src[:], binary.BigEndian.Uint32(src[:])^1<<spread(2, 5))
		f.ipSrc = netip.AddrFrom4(src)
	}
	protocol := []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_SCTP, unix.IPPROTO_ICMP, byte(i)}[spread(3, 16)%5]
	payload := udp(uint16(1)<<spread(4, 4), stormPort^uint16(1)<<spread(5, 4), make([]byte, shortPayload))
	payload[13] = byte(spread(6, 8)) // TCP flags
	return append(f.ethernet(unix.ETH_P_IP), f.ipv4(protocol, payload)...)
}

func everybody() net.HardwareAddr { return net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff} }
