package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// Behind the wires of the endpoints are those of who is no endpoint: where nodes
// route, the host of each node, and on VLANs two routers outside.
const (
	hosts   = plugs     // and the nodes behind it
	borders = plugs + 3 // two

	hostPort = 8
)

// hostOf is the way out of a node.
func hostOf(node int) Outside {
	o := wayOut
	o.MAC[5] = byte(node)
	return o
}

// routerOf is a node among the routers outside.
func routerOf(node int) Router {
	n := byte(node + 1)
	return Router{ID: "router", MAC: mac{2, 2, 192, 0, 2, n}, IPv4: netip.AddrFrom4([4]byte{192, 0, 2, n})}
}

// borderOf is a router outside.
func borderOf(number int) Router {
	n := byte(number + 101)
	return Router{ID: "border", MAC: mac{2, 2, 192, 0, 2, n}, IPv4: netip.AddrFrom4([4]byte{192, 0, 2, n})}
}

// waysOut are what a node has of this: its host, or the routers and the routes by them.
// Routes to the endpoints of other nodes lead to these nodes.
func (w *world) waysOut(n *node) (all []Object) {
	self := slices.Index([]netip.Addr{vtep1, vtep2, vtep3}, n.vtep)
	if !w.landscape.routes() {
		return nil
	}
	if w.encap == VXLAN {
		return []Object{hostOf(self)}
	}
	own := routerOf(self)
	all = append(all, own)
	for _, r := range []Router{routerOf(0), routerOf(1), routerOf(2), borderOf(0), borderOf(1)} {
		for _, a := range r.addresses() {
			all = append(all, NextHop{Address: a, MAC: r.MAC, From: own.MAC})
		}
	}
	for i, e := range w.endpoints {
		for _, a := range e.addresses() {
			if i%3 != self {
				all = append(all, Route{Prefix: inet.Host(a), NextHop: nextHop(routerOf(i%3), a)})
			}
		}
	}
	for group, a := range beyondUs {
		anywhere := netip.PrefixFrom(a, 0).Masked()
		number := FirstRouteGroup + uint32(group)
		all = append(all, HopGroup{Number: number, NextHops: []netip.Addr{nextHop(borderOf(0), a), nextHop(borderOf(1), a)}}, Route{Prefix: anywhere, Group: number})
	}
	return all
}

// nextHop is the address of a router for packets like one.
func nextHop(r Router, like netip.Addr) netip.Addr {
	if like.Is6() {
		return r.LinkLocal()
	}
	return r.IPv4
}

// goesOut is what a node does with a packet for nobody of the tenant: it is for the
// host, or for one of the routers outside.
func (w *world) goesOut(p probeFrame, frame []byte, f *fate) {
	if !w.allows(p, w.groupOf(p.from), 0) {
		return
	}
	node := p.from % 3
	if w.encap == VLAN {
		f.oneOf = map[int][]byte{}
		for b := range 2 {
			f.oneOf[borders+b] = routedFrom(frame, routerOf(node).MAC, borderOf(b).MAC)
		}
		return
	}
	for _, n := range w.networks {
		if n.VRF == w.endpoints[p.from].VRF && (n.Subnet.Contains(p.to) || n.Subnet6.Contains(p.to)) {
			return
		}
	}
	f.must[hosts+node] = withSource(routedFrom(frame, AnycastMAC, hostOf(node).MAC), w.outsideAddress(p.from, p.to))
}

// outsideAddress is what an endpoint's host knows it by.
func (w *world) outsideAddress(endpoint int, like netip.Addr) netip.Addr {
	if like.Is6() {
		return OutsideAddress(wayOut.Prefix6, uint32(10+endpoint))
	}
	return OutsideAddress(wayOut.Prefix, uint32(10+endpoint))
}

// probesFromOutside are from the hosts or the routers outside to every endpoint.
func (w *world) probesFromOutside() (all []probeFrame) {
	if !w.landscape.routes() {
		return nil
	}
	for i, e := range w.endpoints {
		for _, a := range e.addresses() {
			from, node := hosts+i%3, i%3
			p := probeFrame{from: from, to: a, toMAC: hostOf(node).MAC, protocol: pick[uint8](w.rand, 1, 6, 17),
				src: pick[uint16](w.rand, 80, 4000), dst: pick[uint16](w.rand, 80, 53), syn: chance(w.rand, 50), ack: chance(w.rand, 50)}
			src := hostOf(node).MAC
			if w.encap == VLAN {
				b := w.rand.IntN(2)
				p.from, p.toMAC, src = borders+b, routerOf(node).MAC, borderOf(b).MAC
			} else {
				p.to = w.outsideAddress(i, a)
			}
			if p.size = len(p.header()); chance(w.rand, 10) && p.protocol != openflow.ProtoTCP {
				p.size = 9000
			}
			w.sent++
			p.sender, p.number = beyondUs[0], w.sent
			if a.Is6() {
				p.sender = beyondUs[1]
			}
			p.frame = p.build(src)
			all = append(all, p)
		}
	}
	return all
}

// comesIn is what becomes of a packet from outside.
func (w *world) comesIn(p probeFrame, frame []byte, got map[int][]byte) {
	for i, e := range w.endpoints {
		for _, a := range e.addresses() {
			if w.encap == VLAN {
				if a == p.to && w.in(e).routes(a) {
					w.deliver(p, i, routed(frame, e.MAC), got)
				}
			} else if p.to == w.outsideAddress(i, a) {
				p := p // the rules know the endpoint's own address
				p.to = a
				w.deliver(p, i, withMACs(withDestination(frame, a), AnycastMAC, e.MAC), got)
			}
		}
	}
}
