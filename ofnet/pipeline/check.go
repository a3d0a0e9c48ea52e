package pipeline

import (
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/fault"
)

// check returns why an object cannot be expressed in flows; nil if it can. A refused object gets no flows at
// all: a rule without its unknown flag would mean something else, and a zero VRF would be shared.
func check(o Object) error {
	switch o := o.(type) {
	case Network:
		return checkNetwork(o)
	case Endpoint:
		return checkEndpoint(o)
	case FloodSet:
		return checkFloodSet(o)
	case Service:
		return checkService(o)
	case Outside:
		return checkOutside(o)
	case Router:
		return checkRouter(o)
	case Route:
		return checkRoute(o)
	case NextHop:
		return checkNextHop(o)
	case HopGroup:
		return checkHopGroup(o)
	case Rule:
		return checkRule(o)
	case TierRule:
		return checkTierRule(o)
	case Epoch:
		return nil
	case Peer:
		return checkPeer(o)
	default:
		return fault.New(fault.Unsupported, "object %T: the pipeline has no flows for this kind", o)
	}
}

// Limits of the values in objects. They are those of the model; registers and tunnel headers have room for more.
const (
	MaxVNI      = 65535
	MaxVLAN     = 4094
	MaxTag      = 16383 // as many as networks can have VNIs
	MaxGroup    = 32767 // as in the datapath of the original controller
	MaxVRF      = 32765 // each has two of the connection tracker's 65536 zones; those above are of tiers, of the shared VRF and beyondZone
	MaxPriority = 100
	MaxMembers  = 1000 // of a bridged network on one node: the switch processes a packet in at most 4096 tables, four for each member

	// The group of a service, or of flooded packets, is in one message of 64 KiB.
	MaxProviders  = 380 // of a port: buckets have at most 168 bytes; beside them there is room for those that are being ended
	MaxFloodPeers = 800 // other nodes with endpoints of a bridged network

	maxBuckets = 100 * 1000 // of all groups of a service
)

// ProvidersOf returns how many providers each port may have of a service with this many ports, at all its
// addresses together, that has separate ones at each.
func ProvidersOf(ports int) int { return max(1, min(MaxProviders, maxBuckets/max(1, ports))) }

// ValidTCPFlags reports whether a rule may have a flag expression; the empty one is valid.
func ValidTCPFlags(expression string) bool {
	_, ok := tcpFlags[expression]
	return ok || expression == ""
}

func checkNetwork(n Network) error {
	if err := checkVRF("network", n.ID, n.VRF); err != nil {
		return err
	}
	if err := checkSegment("network", n.ID, n.Encap, n.Tag, n.VNI); err != nil {
		return err
	}
	return checkAddresses("network", n.ID, n.Gateway, n.Gateway6)
}

func checkEndpoint(e Endpoint) error {
	if err := checkVRF("endpoint", e.ID, e.VRF); err != nil {
		return err
	}
	if err := checkSegment("endpoint", e.ID, e.Encap, e.Tag, e.VNI); err != nil {
		return err
	}
	if e.Group > MaxGroup {
		return fault.New(fault.Invalid, "endpoint %s: group %d is not in 0..%d", e.ID, e.Group, MaxGroup)
	}
	if e.MAC == ([6]byte{}) || e.MAC[0]&1 != 0 {
		return fault.New(fault.Invalid, "endpoint %s: MAC %x is not that of one host", e.ID, e.MAC)
	}
	if e.Limits.DSCP > MaxDSCP {
		return fault.New(fault.Invalid, "endpoint %s: DSCP %d is not in 0..%d", e.ID, e.Limits.DSCP, MaxDSCP)
	}
	if t := e.Tiers; t > judgement|Tracked || t&IsolatesOut != 0 && t&JudgesOut == 0 || t&IsolatesIn != 0 && t&JudgesIn == 0 {
		return fault.New(fault.Invalid, "endpoint %s: tiers %#x are unknown, or isolate in a direction that they do not judge", e.ID, t)
	}
	return checkAddresses("endpoint", e.ID, e.IPv4, e.IPv6)
}

func checkFloodSet(s FloodSet) error {
	if len(s.Members) > MaxMembers {
		return fault.New(fault.Exhausted, "flood set %s: %d endpoints on this node, at most %d can be flooded to", s.Network, len(s.Members), MaxMembers)
	}
	if len(s.VTEPs) > MaxFloodPeers {
		return fault.New(fault.Exhausted, "flood set %s: it has endpoints on %d other nodes, at most %d can be flooded to", s.Network, len(s.VTEPs), MaxFloodPeers)
	}
	return checkSegment("flood set", s.Network, s.Encap, s.Tag, s.VNI)
}

func checkService(s Service) error {
	if err := checkVRF("service", s.ID, s.VRF); err != nil {
		return err
	}
	if s.Tag == 0 || s.Tag > MaxTag {
		return fault.New(fault.Invalid, "service %s: local tag %d is not in 1..%d", s.ID, s.Tag, MaxTag)
	}
	for _, a := range slices.Concat(s.Providers, s.Draining) {
		if !OfOneHost(a) {
			return fault.New(fault.Invalid, "service %s: provider %s is not an address of one host", s.ID, a)
		}
	}
	for _, p := range s.Ports {
		if n, most := s.providersAt(p), s.roomAt(p); n > most {
			return fault.New(fault.Exhausted, "service %s: %d providers at %s, at most %d can be balanced over there", s.ID, n, p.Address, most)
		}
		if err := checkProviders(s.ID, p); err != nil {
			return err
		}
		if !OfOneHost(p.Address) {
			return fault.New(fault.Invalid, "service %s: port %d is at %s, which is not an address of one host", s.ID, p.Port, p.Address)
		}
		if p.Group < groupServices || p.Group >= groupServices+groupRange {
			return fault.New(fault.Invalid, "service %s: port %d has group %d, which is not one of services", s.ID, p.Port, p.Group)
		}
		if p.Protocol != openflow.ProtoTCP && p.Protocol != openflow.ProtoUDP || p.Port == 0 {
			return fault.New(fault.Invalid, "service %s: port %d to %d of protocol %d is none of TCP or UDP", s.ID, p.Port, p.Target, p.Protocol)
		}
	}
	return nil
}

// providersAt counts those of the providers of all ports that are in a port's IP family.
func (o Service) providersAt(p ServicePort) (n int) {
	for _, a := range slices.Concat(o.Providers, o.Draining) {
		if a.Is4() == p.Address.Is4() {
			n++
		}
	}
	return n
}

// Room returns how many providers of all ports, of one IP family, a service has room for: as many as the port
// with least room, and in total no more than a service of Kubernetes.
func (o Service) Room(ipv4 bool) int {
	room := max(1, maxBuckets/max(1, len(o.Ports)))
	for _, p := range o.Ports {
		if p.Address.Is4() == ipv4 {
			room = min(room, o.roomAt(p))
		}
	}
	return room
}

// roomAt returns how many providers the group of a port has room for: MaxProviders at least.
func (o Service) roomAt(p ServicePort) int {
	if len(o.Providers)+len(o.Draining) <= MaxProviders {
		return MaxProviders
	}
	return openflow.GroupRoom / openflow.Bucket{Actions: o.choice(p, netip.AddrPortFrom(p.Address, 1))}.Size()
}

// checkProviders checks the providers of a port alone.
func checkProviders(service string, p ServicePort) error {
	if n := len(p.Serving) + len(p.Draining); n > MaxProviders {
		return fault.New(fault.Exhausted, "service %s: %d providers of port %d, at most %d can be balanced over", service, n, p.Port, MaxProviders)
	}
	for _, a := range slices.Concat(p.Serving, p.Draining) {
		if p.Target != 0 || !OfOneHost(a.Addr()) || a.Addr().Is4() != p.Address.Is4() || a.Port() == 0 {
			return fault.New(fault.Invalid, "service %s: provider %s of port %d is not an address of one host, of the version of IP of %s", service, a, p.Port, p.Address)
		}
	}
	return nil
}

// OfOneHost reports whether an address is one that a host can have in any network. A service with a provider at
// another one is refused as a whole, so the writer of provider records leaves those out.
func OfOneHost(a netip.Addr) bool {
	return a.IsValid() && !a.Is4In6() && a.Zone() == "" && !a.IsMulticast() && !a.IsUnspecified()
}

func checkOutside(o Outside) error {
	if !o.Prefix.Addr().Is4() || o.Prefix.Bits() != 16 {
		return fault.New(fault.Invalid, "outside %s: private prefix %s is not an IPv4 prefix of 16 bits", o.ID, o.Prefix)
	}
	if o.Prefix6.IsValid() && (!o.Prefix6.Addr().Is6() || o.Prefix6.Bits() > 112) {
		return fault.New(fault.Invalid, "outside %s: private prefix %s is not an IPv6 prefix of at most 112 bits", o.ID, o.Prefix6)
	}
	return nil
}

func checkVRF(kind, id string, vrf uint16) error {
	if vrf == 0 {
		return fault.New(fault.Invalid, "%s %s: VRF is missing", kind, id)
	}
	if vrf > MaxVRF && vrf != SharedVRF {
		return fault.New(fault.Invalid, "%s %s: VRF %d is not in 1..%d", kind, id, vrf, MaxVRF)
	}
	return nil
}

func checkSegment(kind, id string, encap Encap, tag uint16, vni uint32) error {
	switch {
	case encap == VLAN && (tag == 0 || tag > MaxVLAN):
		return fault.New(fault.Invalid, "%s %s: VLAN %d is not in 1..%d", kind, id, tag, MaxVLAN)
	case encap == VLAN:
		return nil
	case tag == 0 || tag > MaxTag:
		return fault.New(fault.Invalid, "%s %s: local tag %d is not in 1..%d", kind, id, tag, MaxTag)
	case vni == 0 || vni > MaxVNI:
		return fault.New(fault.Invalid, "%s %s: VNI %d is not in 1..%d", kind, id, vni, MaxVNI)
	}
	return nil
}

func checkAddresses(kind, id string, four, six netip.Addr) error {
	if four.IsValid() && !four.Is4() {
		return fault.New(fault.Invalid, "%s %s: %s is not an IPv4 address", kind, id, four)
	}
	if six.IsValid() && (!six.Is6() || six.Is4In6() || six.Zone() != "") {
		return fault.New(fault.Invalid, "%s %s: %s is not a plain IPv6 address", kind, id, six)
	}
	return nil
}

func checkRule(r Rule) error {
	if r.Priority < 1 || r.Priority > MaxPriority {
		return fault.New(fault.Invalid, "rule %s: priority %d is not in 1..%d", r.ID, r.Priority, MaxPriority)
	}
	if max(r.SrcGroup, r.DstGroup) > MaxGroup {
		return fault.New(fault.Invalid, "rule %s: groups %d and %d are not both in 0..%d", r.ID, r.SrcGroup, r.DstGroup, MaxGroup)
	}
	if !ValidTCPFlags(r.TCPFlags) {
		return fault.New(fault.Invalid, "rule %s: TCP flags %q are unknown", r.ID, r.TCPFlags)
	}
	for _, p := range []netip.Prefix{r.Src6, r.Dst6} {
		if p.IsValid() && p.Addr().Is4() {
			return fault.New(fault.Invalid, "rule %s: %s is not an IPv6 prefix", r.ID, p)
		}
	}
	if r.Src.IsValid() && r.Dst.IsValid() && r.Src.Addr().Is4() != r.Dst.Addr().Is4() {
		return fault.New(fault.Invalid, "rule %s: %s and %s are of different IP families", r.ID, r.Src, r.Dst)
	}
	return nil
}
