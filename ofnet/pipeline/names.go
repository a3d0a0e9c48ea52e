package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// names forwards an endpoint's DNS queries to the name server of its node, and the answers back. The server is
// queried at the gateway of the endpoint's network, UDP and TCP port 53. In a bridged network the gateway is another
// host; there the server has the address that it has on its link, and no other traffic of the network is affected
// (wellKnown).
//
// Endpoints of different tenants may have the same address, so the server must identify the client in another
// way. On its link every endpoint of the node has an address of its own, derived from the number of its port,
// and so has the server. These addresses are used on that link only, which is in a network namespace of its
// own. The switch translates without connection state:
//
//	endpoint                            server's port
//	own address -> asked, 53      ==>   NamesAsker(port) -> NamesServer, 53
//	asked, 53 -> own address      <==   NamesServer, 53 -> NamesAsker(port)
//
// So the server answers with ordinary sockets, and no packet goes through the controller. Queries are checked
// by the guard first, so that no endpoint queries under another's address. Policies do not apply: name
// resolution is part of the network, like ARP. Nothing else passes between the server and endpoints.
//
// All queries of a node share one server. So that one endpoint cannot delay the others, its queries pass a
// meter of their own in table ANSWER; the excess is dropped in the datapath.
type names struct {
	port    uint32
	gateway [6]byte
}

// dnsPort is the port of name servers.
const dnsPort = 53

// The limit of an endpoint's queries, in packets. A server answers about ten thousand a second; a host with a
// query for each of its connections stays below this.
const (
	questionsPerSecond = 5000
	questionsAtOnce    = 5000
)

// NamesMAC is the MAC of the name server's link. The link needs no ARP: packets from it are addressed by IP.
var NamesMAC = [6]byte{0x02, 0x63, 0x6e, 0x73, 0x00, 0x01}

// NamesPrefixes returns the addresses on the link of the name server, for IPv4 and IPv6.
func NamesPrefixes() [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fd63:6f6e:7469:7600::/64")}
}

// OutsidePrefix6 returns the prefix of the private IPv6 addresses of endpoints on hosts. The IPv4 prefix is a
// global setting, because it may be in use elsewhere; this one is not.
func OutsidePrefix6() netip.Prefix { return netip.MustParsePrefix("fd63:6f6e:7469:7601::/64") }

// NamesServer returns the server's address on its link, in the IP family of a prefix; in bridged networks it is also
// queried there. It is derived from a port number that no endpoint has. No host assigns itself the IPv4 address (RFC
// 3927, 2.1).
func NamesServer(p netip.Prefix) netip.Addr { return privateAddress(p, 1) }

// NamesAsker returns the address under which the endpoint at a port queries the server.
func NamesAsker(p netip.Prefix, port uint32) netip.Addr { return privateAddress(p, port) }

// NamesPort returns the port of the endpoint that queries under an address.
func NamesPort(asker netip.Addr) uint32 {
	raw := asker.AsSlice()
	if len(raw) < 2 {
		return 0
	}
	return uint32(raw[len(raw)-2])<<8 | uint32(raw[len(raw)-1])
}

// privateAddress returns the address in a prefix whose last 16 bits are a number, such as that of a port.
func privateAddress(p netip.Prefix, number uint32) netip.Addr {
	raw := p.Addr().AsSlice()
	raw[len(raw)-2], raw[len(raw)-1] = byte(number>>8), byte(number)
	a, _ := netip.AddrFromSlice(raw) // 4 or 16 bytes, as they were
	return a
}

func (n names) base(w *Wants) {
	w.flow(
		at(tableClassify, priorityExact, openflow.InPort(n.port)).do(arrived(originNames)...).goTo(tableSource),
		at(tableDest, priorityRefuse, regOrigin.is(originNames)).drop(reasonForged), // it answers, and sends nothing else
		at(tableOutput, priorityExact, regOut.is(n.port)).do(openflow.Output{Port: n.port}).end(),
	)
}

// NameServers returns the addresses at which endpoints of a network query names, at most one of each IP family. A
// bridged network whose subnet contains the well-known address keeps it, and has no name server for that family.
func (n Network) NameServers() (servers []netip.Addr) {
	if !n.Mode.Bridged() {
		return n.gateways()
	}
	for _, p := range NamesPrefixes() {
		if a := NamesServer(p); !n.Subnet.Contains(a) && !n.Subnet6.Contains(a) {
			servers = append(servers, a)
		}
	}
	return servers
}

// network's flows translate a query's destination to the server, and an answer's source back to the queried address.
func (n names) network(w *Wants, net Network) {
	if net.Mode.Bridged() {
		n.wellKnown(w, net)
	}
	for _, server := range net.NameServers() {
		f, p := familyOf(server), namesPrefix(server)
		question := []openflow.Action{
			set(openflow.EthSrc(n.gateway)), set(openflow.EthDst(NamesMAC)),
			set(f.src(inet.Host(p.Addr()))), openflow.Move{Src: openflow.FieldInPort16, Dst: f.srcField, Bits: 16},
			set(f.dst(inet.Host(NamesServer(p)))), regOut.set(n.port),
		}
		answer := []openflow.Action{set(openflow.EthSrc(n.gateway)), set(f.src(inet.Host(server)))}
		for _, t := range []struct {
			protocol   uint8
			asks, told openflow.FieldMatch
		}{
			{openflow.ProtoUDP, openflow.UDPDst(dnsPort), openflow.UDPSrc(dnsPort)},
			{openflow.ProtoTCP, openflow.TCPDst(dnsPort), openflow.TCPSrc(dnsPort)},
		} {
			w.flow(
				at(tableDest, priorityExcept, regRouted.is(1), regNetwork.is(uint32(net.Tag)),
					f.is(), openflow.IPProto(t.protocol), f.dst(inet.Host(server)), t.asks).do(question...).goTo(tableAnswer),
				at(tableDest, priorityExcept, regOrigin.is(originNames), regNetwork.is(uint32(net.Tag)),
					f.is(), openflow.IPProto(t.protocol), t.told).do(answer...).goTo(tableOutput))
		}
	}
}

// wellKnown answers for the server's address in a bridged network: ARP, neighbour solicitations and pings. The
// MAC is the gateways', which no host has in such a network. A packet to the address is for the server whatever
// its MAC, so it may also come through a router. Anything but a query is dropped.
func (n names) wellKnown(w *Wants, net Network) {
	inNetwork := regNetwork.is(uint32(net.Tag))
	for _, server := range net.NameServers() {
		f, toServer := familyOf(server), familyOf(server).dst(inet.Host(server))
		if server.Is4() {
			w.flow(answerARP(net.Tag, server, n.gateway))
		} else {
			w.flow(answerND(net.Tag, server, n.gateway))
		}
		w.flow(
			at(tableRouter, priorityExact, inNetwork, f.is(), toServer).do(regRouted.set(1)).goTo(tableDest),
			at(tableDest, priorityExcept, regRouted.is(1), inNetwork, f.is(), f.isICMP(), f.echo, toServer).goTo(tableAnswer))
	}
}

// endpoint's flows find the endpoint that an answer is for, and limit its queries.
func (n names) endpoint(w *Wants, e placed) {
	if !e.local() {
		return
	}
	meter := questionMeter(e.port)
	w.Meters = append(w.Meters, packetMeter(meter, questionsPerSecond, questionsAtOnce))
	w.flow(at(tableAnswer, priorityExcept, openflow.InPort(e.port), regOut.is(n.port)).metered(meter).goTo(tableOutput))
	for _, a := range e.addresses() {
		f := familyOf(a)
		w.flow(at(tableSource, priorityExact, regOrigin.is(originNames), f.is(), f.dst(inet.Host(NamesAsker(namesPrefix(a), e.port)))).
			do(regNetwork.set(uint32(e.Tag)), set(openflow.EthDst(e.MAC)), set(f.dst(inet.Host(a))), regOut.set(e.port)).
			goTo(tableDest))
	}
}

func namesPrefix(a netip.Addr) netip.Prefix {
	p := NamesPrefixes()
	if a.Is4() {
		return p[0]
	}
	return p[1]
}
