package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// Wires of others than endpoints follow those of endpoints: where nodes route, the host of each node, and on VLANs
// two external routers.
const (
	hosts   = plugs     // and the nodes behind it
	borders = plugs + 3 // two

	hostPort = 8
)

// hostOf returns the Outside of a node.
func hostOf(node int) Outside {
	o := wayOut
	o.MAC[5] = byte(node)
	return o
}

// routerOf returns a node as one of the routers.
func routerOf(node int) Router {
	n := byte(node + 1)
	return Router{ID: "router", MAC: mac{2, 2, 192, 0, 2, n}, IPv4: netip.AddrFrom4([4]byte{192, 0, 2, n})}
}

// borderOf returns an external router.
func borderOf(number int) Router {
	n := byte(number + 101)
	return Router{ID: "border", MAC: mac{2, 2, 192, 0, 2, n}, IPv4: netip.AddrFrom4([4]byte{192, 0, 2, n})}
}

// waysOut returns the objects of a node for this: its host, or the routers and the routes through them. Routes to
// endpoints of other nodes lead to these nodes.
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

// nextHop returns the address of a router for packets of an IP family.
func nextHop(r Router, like netip.Addr) netip.Addr {
	if like.Is6() {
		return r.LinkLocal()
	}
	return r.IPv4
}

// goesOut sets the fate of a packet for an address that no endpoint of the tenant has: it goes to the host, or to
// one of the external routers.
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

// outsideAddress returns the address by which its host knows an endpoint.
func (w *world) outsideAddress(endpoint int, like netip.Addr) netip.Addr {
	if like.Is6() {
		return OutsideAddress(wayOut.Prefix6, uint32(10+endpoint))
	}
	return OutsideAddress(wayOut.Prefix, uint32(10+endpoint))
}

// probesFromOutside returns probes from the hosts or the external routers to every endpoint.
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

// comesIn sets the fate of a packet from outside.
func (w *world) comesIn(p probeFrame, frame []byte, got map[int][]byte) {
	for i, e := range w.endpoints {
		for _, a := range e.addresses() {
			if w.encap == VLAN {
				if a == p.to && w.in(e).routes(a) {
					w.deliver(p, i, routed(frame, e.MAC), got)
				}
			} else if p.to == w.outsideAddress(i, a) {
				p := p // rules match the endpoint's own address
				p.to = a
				w.deliver(p, i, withMACs(withDestination(frame, a), AnycastMAC, e.MAC), got)
			}
		}
	}
}
