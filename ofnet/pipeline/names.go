package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// names leads an endpoint's questions for names to the name server of its node,
// and the answers back. The server is asked at the gateway of the endpoint's
// network, UDP and TCP port 53. In a bridged network the gateway is somebody
// else's; there the server has the address that it has on its link, and nothing
// else of the network is touched (wellKnown).
//
// Endpoints of different tenants may have the same address, so the server must be
// told in another way who asks. Behind its port every endpoint of the node has an
// address of its own, made of the number of its port, and the server another one.
// These addresses are known on that link only, which is in a network namespace of
// its own. The switch translates, without remembering anything:
//
//	endpoint                            server's port
//	own address -> asked, 53      ==>   NamesAsker(port) -> NamesServer, 53
//	asked, 53 -> own address      <==   NamesServer, 53 -> NamesAsker(port)
//
// So the server answers with ordinary sockets, and no packet goes through the
// controller. What an endpoint asks is looked at first by the guard: nobody asks in
// another's name. The policy is not: answers to names are part of the network, as
// those to ARP are. Nothing else passes between the server and endpoints.
//
// All questions of a node wait in front of one server. So that one endpoint cannot
// make the others wait, its questions pass a meter of their own in table ANSWER;
// what exceeds it is dropped in the datapath.
type names struct {
	port    uint32
	gateway [6]byte
}

// dnsPort is where names are asked for.
const dnsPort = 53

// The limit of an endpoint's questions, in packets. A server answers some ten
// thousand a second; a host that asks for each of its connections stays below this.
const (
	questionsPerSecond = 5000
	questionsAtOnce    = 5000
)

// The meters of questions follow those of packets to the agent, those of what is flooded
// follow them, then those of what is overheard, and last those of slowed ports. The kernel has meters up to 200,000 only,
// so each of them are fewer than there are port numbers: ports that many apart share one. Few ports are slowed at a time.
const (
	meterNames     = meterPackets + 1<<8
	meterFlooded   = meterNames + sharedMeters
	meterOverheard = meterFlooded + sharedMeters
	meterSlowed    = meterOverheard + sharedMeters
	sharedMeters   = 1024
	slowedMeters   = 32
)

// LastMeter is the largest number of a meter.
const LastMeter = meterSlowed + slowedMeters - 1

func questionMeter(port uint32) uint32  { return meterNames + MetersOf(port) }
func floodedMeter(port uint32) uint32   { return meterFlooded + MetersOf(port) }
func overheardMeter(port uint32) uint32 { return meterOverheard + MetersOf(port) }
func slowedMeter(port uint32) uint32    { return meterSlowed + port%slowedMeters }

// MetersOf tells which of the shared meters a port has: ports of which it is the same share
// theirs.
func MetersOf(port uint32) uint32 { return port % sharedMeters }

// NamesMAC is the address of the name server's link. The link needs no ARP:
// whatever comes from it is addressed by IP.
var NamesMAC = [6]byte{0x02, 0x63, 0x6e, 0x73, 0x00, 0x01}

// NamesPrefixes are the addresses on the link of the name server, for IPv4 and IPv6.
func NamesPrefixes() [2]netip.Prefix {
	return [2]netip.Prefix{netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fd63:6f6e:7469:7600::/64")}
}

// OutsidePrefix6 has the private IPv6 addresses by which hosts know endpoints. Those of IPv4 are a global setting, because they may be
// in use; these are nobody else's.
func OutsidePrefix6() netip.Prefix { return netip.MustParsePrefix("fd63:6f6e:7469:7601::/64") }

// NamesServer is the server's address on its link, in the version of IP of a
// prefix, and the one that bridged networks know it by. It is that of the port that
// is never an endpoint's. No host gives itself the IPv4 address (RFC 3927, 2.1).
func NamesServer(p netip.Prefix) netip.Addr { return NamesAsker(p, 1) }

// NamesAsker is the address under which the endpoint at a port asks.
func NamesAsker(p netip.Prefix, port uint32) netip.Addr {
	raw := p.Addr().AsSlice()
	raw[len(raw)-2], raw[len(raw)-1] = byte(port>>8), byte(port)
	a, _ := netip.AddrFromSlice(raw) // 4 or 16 bytes, as they were
	return a
}

// NamesPort is the port at which the endpoint is that asks under an address.
func NamesPort(asker netip.Addr) uint32 {
	raw := asker.AsSlice()
	if len(raw) < 2 {
		return 0
	}
	return uint32(raw[len(raw)-2])<<8 | uint32(raw[len(raw)-1])
}

func (n names) base(w *Wants) {
	w.flow(
		at(tableClassify, priorityExact, openflow.InPort(n.port)).do(arrived(originNames)...).goTo(tableSource),
		at(tableDest, priorityRefuse, regOrigin.is(originNames)).drop(reasonForged), // it answers, and sends nothing else
		at(tableOutput, priorityExact, regOut.is(n.port)).do(openflow.Output{Port: n.port}).end(),
	)
}

// NameServers are the addresses at which endpoints of a network ask, at most one for
// each version of IP. A bridged network that has a well-known address itself keeps it,
// and has no name server for that version.
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

// network's flows make a question for an address at which one asks one for the
// server, and an answer of the server one of that address.
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

// wellKnown answers for the server's address in a bridged network: to ARP, neighbour
// solicitations and pings. The MAC is that of gateways, which nobody has in such a
// network. A packet to the address is the server's whatever its MAC, so it may come by
// way of a router, too. What is no question for names goes nowhere.
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

// endpoint's flows find the endpoint whose question is answered, and limit how many
// it asks.
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
