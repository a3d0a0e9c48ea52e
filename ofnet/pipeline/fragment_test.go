package pipeline

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// datagrams opens a UDP socket in a pod.
func (p *pod) datagrams(port uint16) *net.UDPConn {
	p.t.Helper()
	var conn *net.UDPConn
	err := p.inside(func() (err error) {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
		return err
	})
	if err != nil {
		p.t.Fatalf("%s opens port %d: %v", p.ID, port, err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// A datagram arrives whole or not at all, by the verdict on its first fragment.
func TestFragmentsShareTheFateOfTheFirst(t *testing.T) {
	c := startCluster(t, web1, web2, db1, db2)
	const open, closed, fence = 7000, 7001, 7002
	udp := func(id string, priority int, port uint16) Rule {
		return rule(id, priority, func(r *Rule) {
			r.SrcGroup, r.DstGroup, r.Protocol, r.DstPort, r.Allow = front, store, 17, port, port != 0
		})
	}
	c.program(udp("no", 1, 0), udp("yes", 10, open), udp("the fence", 5, fence),
		rule("ping", 20, func(r *Rule) { r.SrcGroup, r.DstGroup, r.Protocol, r.Allow = front, store, 1, true }),
		rule("nothing else", 2, func(r *Rule) { r.SrcGroup, r.DstGroup = front, store }))
	from := c.pod(web1).datagrams(0)
	for _, to := range []Endpoint{db1, db2} {
		for _, a := range []netip.Addr{to.IPv4, to.IPv6} {
			received := map[uint16]*net.UDPConn{}
			for _, port := range []uint16{open, closed, fence} {
				received[port] = c.pod(to).datagrams(port)
			}
			for _, size := range []int{1, 1392, 1422, 1423, 3000, 9000} { // the MTU is 1450
				payload := bytes.Repeat([]byte{byte(size)}, size)
				for _, port := range []uint16{closed, open} {
					if _, err := from.WriteToUDPAddrPort(payload, netip.AddrPortFrom(a, port)); err != nil {
						t.Fatal(err)
					}
				}
				if got := next(received[open], soon); !bytes.Equal(got, payload) {
					t.Errorf("%s: of %d bytes to the open port %d arrive", a, size, len(got))
				}
			}
			if _, err := from.WriteToUDPAddrPort([]byte("the last"), netip.AddrPortFrom(a, fence)); err != nil {
				t.Fatal(err)
			}
			if next(received[fence], soon) == nil {
				t.Errorf("%s: the last datagram does not arrive", a)
			}
			if got := next(received[closed], time.Millisecond); got != nil {
				t.Errorf("%s: %d bytes arrive at the closed port", a, len(got))
			}
			if out, err := c.pod(web1).exec("ping", "-n", "-c", "1", "-s", "4000", "-W", "5", a.String()); err != nil {
				t.Errorf("ping with fragments: %s", out)
			}
			for _, conn := range received {
				_ = conn.Close()
			}
		}
	}
}

// next returns the next datagram; nil if none arrives in time.
func next(conn *net.UDPConn, limit time.Duration) []byte {
	_ = conn.SetReadDeadline(time.Now().Add(limit))
	buffer := make([]byte, 10_000)
	n, _, err := conn.ReadFromUDPAddrPort(buffer)
	if err != nil {
		return nil
	}
	return buffer[:n]
}

// A sender that splits a header hides its ports from the rules.
func TestAFirstFragmentWithoutPortsIsDropped(t *testing.T) {
	c := startCluster(t, web1, db1)
	c.program(rule("allow", 1, func(r *Rule) { r.Allow = true }))
	from, to := c.pod(web1).wire(), c.pod(db1).wire()
	const more = 0x20 // flag in the first byte of the offset
	for protocol, length := range map[byte][2]int{6: {19, 20}, 17: {7, 8}, 132: {11, 12}} {
		for i, text := range []string{"", "whole"} {
			transport := make([]byte, length[i])
			binary.BigEndian.PutUint16(transport[2:], 80)
			if protocol == 6 {
				transport[12] = 5 << 4 // the length of the header
			}
			header := []byte{0x45, 0, 0, byte(20 + len(transport)), 0, protocol, more, 0, 64, protocol, 0, 0}
			header = append(append(header, web1.IPv4.AsSlice()...), db1.IPv4.AsSlice()...)
			binary.BigEndian.PutUint16(header[10:], checksum(header))
			from.send(ethernet(AnycastMAC, web1.MAC, openflow.EthTypeIPv4, header, transport))
			wanted := text != ""
			limit := soon
			if !wanted {
				from.send(udpFrame(AnycastMAC, web1.MAC, db1.IPv4, web1.IPv4, "fence"))
			}
			got := to.receive(limit, func(frame []byte) bool {
				return bytes.Contains(frame, []byte("fence")) || len(frame) > 23 && frame[23] == protocol && frame[20]&more != 0
			})
			if got == nil || bytes.Contains(got, []byte("fence")) == wanted {
				t.Errorf("protocol %d, %d bytes: got %x", protocol, length[i], got)
			}
		}
	}
}

// Extension headers that continue in the next fragment hide even the protocol.
func TestAFirstFragmentWithoutAllHeadersIsDropped(t *testing.T) {
	c := startCluster(t, web1, web2)
	from, to := c.pod(web1).wire(), c.pod(web2).wire()
	const destinationOptions, udp, fragment = 60, 17, 44
	first := func(next byte, options ...byte) []byte {
		header := []byte{next, 0, 0, 1, 0, 0, 0, 7} // at 0, with the flag "more"
		header = append(header, options...)
		ip := append(append([]byte{0x60, 0, 0, 0, 0, byte(len(header)), fragment, 64}, web1.IPv6.AsSlice()...), web2.IPv6.AsSlice()...)
		return ethernet(web2.MAC, web1.MAC, openflow.EthTypeIPv6, ip, header)
	}
	// 16 bytes of options, of which 8 are here; 8 bytes, and more of them in the next fragment; and one that the
	// userspace datapath parses as the kernel's does the others.
	from.send(first(destinationOptions, udp, 1, 1, 12, 'h', 'i', 'd', 'e'))
	from.send(first(destinationOptions, destinationOptions, 0, 1, 4, 'h', 'i', 'd', 'e'))
	from.send(first(noNextHeader, 'h', 'i', 'd', 'e', 0, 0, 0, 0))
	// A message of ICMPv6 whose type is in the next fragment: it could be an advertisement of a router.
	from.send(first(destinationOptions, openflow.ProtoICMPv6, 0, 1, 4, 'h', 'i', 'd', 'e'))
	from.send(first(destinationOptions, append([]byte{udp, 0, 1, 4, 0, 0, 0, 0}, []byte{0, 9, 0, 9, 0, 24, 0, 0, 's', 'h', 'o', 'w', 0, 0, 0, 0}...)...))
	if got := to.receive(soon, func(frame []byte) bool {
		return bytes.Contains(frame, []byte("hide")) || bytes.Contains(frame, []byte("show"))
	}); !bytes.Contains(got, []byte("show")) {
		t.Errorf("got %x", got)
	}
}
