package tracing

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
)

// sourcePort is the source port of packets, and firstTTL their initial TTL.
const (
	sourcePort = 49152
	firstTTL   = 64
)

// firstFields are fields of the first packet of a connection, besides its ports.
var firstFields = map[uint8]string{inet.TCP: ",tcp_flags=0x2"}

// packet returns the packet of the endpoint as flow fields: at its own port if it is local, otherwise as it
// arrives from the tunnel. If no endpoint has the destination address in the sender's own network, it is the
// ARP request or neighbour solicitation, as no other packet is ever sent.
func (w *world) packet(from pipeline.Endpoint, to target, q Query) (string, error) {
	protocol := inet.TransportNumber(q.Protocol)
	if q.Protocol == "icmp" {
		protocol = inet.ICMP
	}
	if protocol == 0 || q.Port == 0 && protocol != inet.ICMP {
		return "", fault.New(fault.Invalid, "protocol %q, port %d: want tcp, udp or sctp with a port of 1 to 65535, or icmp", q.Protocol, q.Port)
	}
	source := from.IPv4
	if to.address.Is6() {
		source = from.IPv6
	}
	if !source.IsValid() && !q.Source.IsValid() {
		return "", fault.New(fault.Invalid, "endpoint %s has no address of the IP family of %s", from.ID, to.address)
	}
	if source == to.address && from.Local {
		return "", fault.New(fault.Invalid, "endpoint %s has the address %s: what it sends there does not leave it", from.ID, to.address)
	}
	if q.Source.IsValid() {
		source = q.Source.Unmap()
	}
	if !source.IsValid() || source.Is4() != to.address.Is4() || source.Zone() != "" {
		return "", fault.New(fault.Invalid, "a packet from %s to %s: want two addresses of one version of IP", source, to.address)
	}
	if !from.Local {
		return w.arrival(from, to, func(ttl int) string {
			return ipFields(protocol, ttl, firstFields[protocol], source, to.address, q.Port)
		})
	}
	port, has := w.numbers[from.ID]
	if !has || port == 0 {
		return "", fault.New(fault.Unavailable, "node %s: endpoint %s has no port", w.host, from.ID)
	}
	receiver, asks, err := w.nextMAC(from, to)
	if err != nil {
		return "", err
	}
	if asks {
		return fmt.Sprintf("in_port=%d,%s", port, neighbourFields(from.MAC, source, to.address)), nil
	}
	return fmt.Sprintf("in_port=%d,dl_src=%s,dl_dst=%s,%s", port, mac(from.MAC), mac(receiver),
		ipFields(protocol, firstTTL, firstFields[protocol], source, to.address, q.Port)), nil
}

// arrival returns the packet as it arrives from the tunnel of the sender's node, which has routed it.
func (w *world) arrival(from pipeline.Endpoint, to target, fields func(ttl int) string) (string, error) {
	if from.Encap != pipeline.VXLAN || !from.VTEP.IsValid() || to.endpoint.ID == "" {
		return "", fault.New(fault.NotFound, "node %s: endpoint %s is on another node", w.host, from.ID)
	}
	sender, ttl := from.MAC, firstTTL
	if from.Network != to.endpoint.Network {
		sender, ttl = pipeline.AnycastMAC, firstTTL-1
	}
	tunnel := "tun_src=%s,tun_dst=%s"
	if from.VTEP.Is6() {
		tunnel = "tun_ipv6_src=%s,tun_ipv6_dst=%s"
	}
	return fmt.Sprintf("in_port=%d,tun_id=%d,"+tunnel+",dl_src=%s,dl_dst=%s,%s", w.sw.Trunk(), to.endpoint.VNI, from.VTEP, w.vtep,
		mac(sender), mac(to.endpoint.MAC), fields(ttl)), nil
}

// nextMAC returns the destination MAC of the sender's packet: that of the receiver in its own network, or that
// of its gateway. With asks there is no such packet, because its neighbour resolution gets no answer.
func (w *world) nextMAC(from pipeline.Endpoint, to target) (receiver [6]byte, asks bool, err error) {
	network := w.networks[from.Network]
	subnet, gateway := network.Subnet, network.Gateway
	if to.address.Is6() {
		subnet, gateway = network.Subnet6, network.Gateway6
	}
	if group, is := groupMAC(to.address); is {
		return group, false, nil
	}
	near, bridged := subnet.Contains(to.address), from.Mode.Bridged()
	switch {
	case near && to.endpoint.ID != "":
		return to.endpoint.MAC, false, nil
	case near && to.service, slices.Contains(w.names, to.address), !bridged && (!near || to.address == gateway):
		return pipeline.AnycastMAC, false, nil // the switch answers for these
	case near:
		return receiver, true, nil
	case !gateway.IsValid():
		return receiver, false, fault.New(fault.Invalid, "%s is outside of network %s, which has no gateway", to.address, from.Network)
	}
	for _, e := range w.endpoints {
		if e.Network == from.Network && (e.IPv4 == gateway || e.IPv6 == gateway) {
			return e.MAC, false, nil
		}
	}
	return receiver, false, fault.New(fault.Invalid, "%s is outside of network %s, whose gateway is no endpoint", to.address, from.Network)
}

// groupMAC returns the destination MAC of packets to many: a multicast address, or the broadcast address 255.255.255.255.
func groupMAC(to netip.Addr) (group [6]byte, is bool) {
	low := to.As16()
	switch {
	case to.Is4() && to.IsMulticast():
		return [6]byte{0x01, 0x00, 0x5e, low[13] & 0x7f, low[14], low[15]}, true // RFC 1112, 6.4
	case to.Is6() && to.IsMulticast():
		return [6]byte{0x33, 0x33, low[12], low[13], low[14], low[15]}, true // RFC 2464, 7
	case to == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, true
	}
	return group, false
}

// ipFields returns the fields of an IP packet after its MACs.
func ipFields(protocol uint8, ttl int, more string, source, to netip.Addr, port uint16) string {
	layer, addresses := "ip,nw_proto=%d", "nw_src=%s,nw_dst=%s"
	if to.Is6() {
		layer, addresses = "ipv6,nw_proto=%d", "ipv6_src=%s,ipv6_dst=%s"
	}
	name := inet.TransportName(protocol)
	ports := fmt.Sprintf(",%s_src=%d,%s_dst=%d", name, sourcePort, name, port)
	if protocol == openflow.ProtoICMP {
		ports = ",icmp_type=8,icmp_code=0" // an echo request
		if to.Is6() {
			protocol, ports = openflow.ProtoICMPv6, ",icmpv6_type=128,icmpv6_code=0"
		}
	}
	return fmt.Sprintf(layer+",nw_ttl=%d,", protocol, ttl) + fmt.Sprintf(addresses, source, to) + ports + more
}

// neighbourFields returns the fields of an ARP request or neighbour solicitation.
func neighbourFields(sender [6]byte, source, asked netip.Addr) string {
	if asked.Is4() {
		return fmt.Sprintf("arp,dl_src=%s,dl_dst=ff:ff:ff:ff:ff:ff,arp_op=1,arp_sha=%s,arp_spa=%s,arp_tpa=%s", mac(sender), mac(sender), source, asked)
	}
	low := asked.As16()
	all := netip.AddrFrom16([16]byte{0xff, 2, 11: 1, 12: 0xff, 13: low[13], 14: low[14], 15: low[15]}) // RFC 4291, 2.7.1
	group, _ := groupMAC(all)
	return fmt.Sprintf("icmp6,dl_src=%s,dl_dst=%s,nw_ttl=255,ipv6_src=%s,ipv6_dst=%s,icmpv6_type=135,icmpv6_code=0,nd_target=%s,nd_sll=%s",
		mac(sender), mac(group), source, all, asked, mac(sender))
}

func mac(m [6]byte) string { return strings.ToLower(net.HardwareAddr(m[:]).String()) }
