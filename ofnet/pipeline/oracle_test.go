package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// fate is the expected outcome of a frame: the wires at which it arrives, and its content there.
type fate struct {
	must  map[int][]byte // at all of these
	oneOf map[int][]byte // at exactly one of these
	none  bool           // or at none of oneOf
}

// fate returns the oracle's answer.
func (w *world) fate(p probeFrame, frame []byte) fate {
	f := fate{must: map[int][]byte{}}
	if p.from >= plugs {
		w.comesIn(p, frame, f.must)
		return f
	}
	sender := w.endpoints[p.from]
	in := w.in(sender)
	switch marked := withDSCP; {
	case p.protocol == 0:
		w.answered(p, in, frame, f.must)
	case in.Mode.Bridged() && p.viaGateway && w.served(p, marked(frame, sender.Limits.DSCP), &f):
	case in.Mode.Bridged():
		w.bridged(p, in, marked(frame, sender.Limits.DSCP), f.must)
	case !p.viaGateway:
		w.switched(p, in, marked(frame, sender.Limits.DSCP), &f)
	case in.routes(p.to) || p.to == familyOf(p.to).hairpinAddress():
		w.routed(p, marked(frame, sender.Limits.DSCP), &f)
	}
	w.fromService(p, f.must)
	return f
}

// without returns the fate of a frame if there were no rules.
func (w *world) without(p probeFrame, frame []byte) fate {
	lawless := *w
	lawless.lawless = true
	return lawless.fate(p, frame)
}

// bridged finds receivers by their MAC. On a VLAN, unknown ones are outside.
func (w *world) bridged(p probeFrame, in Network, frame []byte, got map[int][]byte) {
	for i, e := range w.endpoints {
		if e.Network == in.ID && e.MAC == p.toMAC {
			w.deliver(p, i, frame, got)
			return
		}
	}
	if group := p.toMAC[0]&1 != 0; group || in.Encap == VXLAN && !p.viaGateway {
		w.flooded(p, in, frame, got)
	}
}

// flooded delivers to the whole network. On a VLAN that includes hosts outside, which have neither group nor class: what
// its sender may not send to them does not leave its node.
func (w *world) flooded(p probeFrame, in Network, frame []byte, got map[int][]byte) {
	const outside = plugs
	leaves := in.Encap == VXLAN || w.allows(p, w.groupOf(p.from), 0) && w.admits(p, outside)
	for i, e := range w.endpoints {
		if e.Network == in.ID && (leaves || i%3 == p.from%3) {
			w.deliver(p, i, frame, got)
		}
	}
}

// switched delivers within the network. With routers between nodes, endpoints of other nodes are reached by those,
// also at the MAC that they had on the sender's node.
func (w *world) switched(p probeFrame, in Network, frame []byte, f *fate) {
	for i, e := range w.endpoints {
		switch {
		case e.Network != in.ID || e.MAC != p.toMAC:
		case in.Encap == VLAN && i%3 != p.from%3:
			w.routed(p, frame, f)
		case e.has(p.to):
			w.deliver(p, i, frame, f.must)
		}
	}
}

// routed delivers to the address of a gateway or service, to an endpoint, or outside.
func (w *world) routed(p probeFrame, frame []byte, f *fate) {
	if w.served(p, frame, f) {
		return
	}
	sender := w.endpoints[p.from]
	if p.isPing() && slices.ContainsFunc(w.networks, func(n Network) bool {
		return n.VRF == sender.VRF && (n.Gateway == p.to || n.Gateway6 == p.to)
	}) {
		f.must[p.from] = echoed(frame)
		return
	}
	for i, e := range w.endpoints {
		if e.VRF != sender.VRF || !e.has(p.to) {
			continue
		}
		if to := routed(frame, e.MAC); w.in(e).routes(p.to) {
			if w.encap == VLAN && i%3 != p.from%3 {
				to = routed(to, e.MAC) // by both nodes
			}
			w.deliver(p, i, to, f.must)
		}
		return
	}
	w.goesOut(p, frame, f)
}

func (p probeFrame) isPing() bool { return p.protocol == openflow.ProtoICMP }

// echoed returns the switch's answer to a ping.
func echoed(frame []byte) []byte {
	src, dst := ends(frame)
	at, kind := 34, byte(0)
	hops, sums := 22, []int{24}
	if isIPv6(frame) {
		at, kind, hops, sums = 54, 129, 21, nil
	}
	out := replaced(withDestination(withSource(frame, dst), src), at, []byte{kind}, at+2)
	return withMACs(replaced(out, hops, []byte{freshTTL}, sums...), AnycastMAC, mac(frame[6:12]))
}

// ends returns the addresses in a frame.
func ends(frame []byte) (src, dst netip.Addr) {
	if isIPv6(frame) {
		return netip.AddrFrom16([16]byte(frame[22:38])), netip.AddrFrom16([16]byte(frame[38:54]))
	}
	return netip.AddrFrom4([4]byte(frame[26:30])), netip.AddrFrom4([4]byte(frame[30:34]))
}

// routes reports whether a network has a gateway for packets to an address.
func (n Network) routes(to netip.Addr) bool {
	return n.Gateway.IsValid() && to.Is4() || n.Gateway6.IsValid() && to.Is6()
}

func (e Endpoint) has(a netip.Addr) bool { return e.IPv4 == a || e.IPv6 == a }

func (w *world) isGateway(a netip.Addr) bool {
	return slices.ContainsFunc(w.networks, func(n Network) bool {
		return !n.Mode.Bridged() && (n.Gateway == a || n.Gateway6 == a)
	})
}

// answered sets the fate of an ARP request: the answer with the owner's MAC, or the flooded request.
func (w *world) answered(p probeFrame, in Network, frame []byte, got map[int][]byte) {
	owners := map[netip.Addr]mac{}
	if in.Mode == Routed && in.Gateway.IsValid() {
		owners[in.Gateway] = AnycastMAC
	}
	for _, s := range w.services {
		if s.Tag == in.Tag {
			owners[vipOf(s)] = AnycastMAC
		}
	}
	for i, e := range w.endpoints {
		if e.Network == in.ID {
			if owners[e.IPv4] = e.MAC; w.encap == VLAN && w.landscape.routes() && i%3 != p.from%3 {
				owners[e.IPv4] = AnycastMAC
			}
		}
	}
	owner, known := owners[p.to]
	service := owner == AnycastMAC && in.Mode.Bridged()
	sender := w.endpoints[p.from]
	switch {
	case in.Encap == VLAN && in.Mode.Bridged() && p.to == sender.IPv4: // announced to hosts outside
		w.flooded(p, in, frame, got)
	case in.Mode != BridgedFlood && p.to == sender.IPv4: // dropped
	case in.Mode != BridgedFlood && known, service:
		answer := ethernet(sender.MAC, owner, openflow.EthTypeARP, []byte{0, 1, 8, 0, 6, 4, 0, 2},
			owner[:], frame[38:42], frame[22:28], frame[28:32])
		got[p.from] = append(answer, frame[42:]...)
	case in.Mode.Bridged():
		w.flooded(p, in, frame, got)
	}
}

func (w *world) deliver(p probeFrame, to int, frame []byte, got map[int][]byte) {
	if to != p.from && w.allows(p, w.groupOf(p.from), w.groupOf(to)) && w.admits(p, to) {
		got[to] = frame
	}
}

// groupOf returns the group behind a wire; 0 if that is no endpoint's.
func (w *world) groupOf(wire int) uint16 {
	if wire >= plugs {
		return 0
	}
	return w.endpoints[wire].Group
}

// allows returns the verdict of the rules; those with the highest priority decide, and each of them may deny.
func (w *world) allows(p probeFrame, from, to uint16) bool {
	verdict, best := true, 0
	for i := range w.rules { // thousands, which must not be copied
		switch r := &w.rules[i]; {
		case w.lawless || r.Priority < best || !r.fits(&p, from, to):
		case r.Priority == best:
			verdict = verdict && r.Allow
		default:
			verdict, best = r.Allow, r.Priority
		}
	}
	return verdict
}

func (r *Rule) fits(p *probeFrame, from, to uint16) bool {
	is := func(want, got uint16) bool { return want == 0 || want == got }
	return p.protocol != 0 && is(r.SrcGroup, from) && is(r.DstGroup, to) &&
		(!r.Src.IsValid() || r.Src.Contains(p.sender)) &&
		(!r.Dst.IsValid() || r.Dst.Contains(p.to) || r.Dst6.IsValid() && r.Dst6.Contains(p.to)) &&
		is(uint16(r.Protocol), uint16(p.protocol)) && is(r.SrcPort, p.src) && is(r.DstPort, p.dst) &&
		(r.TCPFlags == "" && (p.ack || !r.Allow || p.protocol != 6 || r.Protocol != 6 || r.SrcPort == 0 || r.DstPort != 0) || // answers have ACK
			r.TCPFlags != "" && p.syn && !p.ack)
}
