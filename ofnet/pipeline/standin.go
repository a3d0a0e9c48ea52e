package pipeline

import (
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// What comes to an address of the host itself is the host's, and so it has to be translated to come to the switch. The host
// gives it an address among the private ones instead, which stands in for what was asked for:
//
//   - an address of load balancers that is on an interface of the host. It has ports of services, and may have others that are the host's;
//   - a node port of UDP. All node ports are at one address (NodePorts), where the later fragments of a datagram would not say which one
//     they are for. The host has put the datagram together, and knows it.
//
// Which number an address or a port has follows from what there is, so that it is the same in the next run. It is a hash, or if that
// is taken the next one that is not. Ports for which there is no number are at the address of all.
type StandIns struct {
	balancers map[netip.Addr]uint32
	nodePorts map[uint16]uint32
}

// Numbers that take the place of a port's in the addresses of stand-ins. No port has one of them.
const (
	firstBalancer     = 0xff00
	balancersOfAHost  = 128
	firstNodePort     = firstBalancer + balancersOfAHost
	nodePortsForParts = outsidePods - firstNodePort
)

// standInBits is the length of the part of a private address behind which all of them are, balancerBits of those that
// stand in for addresses.
const standInBits, balancerBits = 8, 7

// NewStandIns finds numbers for addresses and for node ports of UDP.
func NewStandIns(balancers []netip.Addr, nodePorts []uint16) StandIns {
	return StandIns{
		numbers(balancers, netip.Addr.Compare, firstBalancer, balancersOfAHost, netip.Addr.AsSlice),
		numbers(nodePorts, func(a, b uint16) int { return int(a) - int(b) }, firstNodePort, nodePortsForParts, func(p uint16) []byte { return []byte{byte(p >> 8), byte(p)} }),
	}
}

// numbers gives each of some things one of so many from the first on; the things are looked at in their order.
func numbers[K comparable](all []K, order func(a, b K) int, first, count uint32, bytes func(K) []byte) map[K]uint32 {
	found, taken := make(map[K]uint32, len(all)), make(map[uint32]struct{}, len(all))
	for _, one := range slices.SortedFunc(slices.Values(all), order) {
		if _, again := found[one]; again || len(taken) == int(count) {
			continue
		}
		h := fnv.New32a()
		h.Write(bytes(one)) // never fails, as hash.Hash promises
		n := h.Sum32() % count
		for {
			if _, other := taken[n]; !other {
				break
			}
			n = (n + 1) % count
		}
		found[one], taken[n] = first+n, struct{}{}
	}
	return found
}

// Balancer stands in for an address of load balancers, if it is one of the host.
func (s StandIns) Balancer(private netip.Prefix, a netip.Addr) (netip.Addr, bool) {
	n, has := s.balancers[a]
	if !has || !private.IsValid() {
		return netip.Addr{}, false
	}
	return OutsideAddress(private, n), true
}

// NodePort is the address at which the switch has a node port. It stands in for this port alone, or is that of all.
func (s StandIns) NodePort(private netip.Prefix, protocol uint8, port uint16) (at netip.Addr, alone bool) {
	if n, has := s.nodePorts[port]; has && protocol == openflow.ProtoUDP {
		return OutsideAddress(private, n), true
	}
	return NodePorts(private), false
}

// Moved are the addresses and node ports of which other stand-ins are known, or none any more.
func (s StandIns) Moved(before StandIns) (balancers []netip.Addr, nodePorts []uint16) {
	return moved(s.balancers, before.balancers), moved(s.nodePorts, before.nodePorts)
}

func moved[K comparable](now, before map[K]uint32) (some []K) {
	for one, n := range now {
		if before[one] != n {
			some = append(some, one)
		}
	}
	for one := range before {
		if _, still := now[one]; !still {
			some = append(some, one)
		}
	}
	return some
}

// Balancers are the addresses that have one, ascending.
func (s StandIns) Balancers() []netip.Addr {
	return slices.SortedFunc(maps.Keys(s.balancers), netip.Addr.Compare)
}

// AllStandIns are the private addresses among which all of them are, that of the node ports, and others at which nobody is asked.
func AllStandIns(private netip.Prefix) netip.Prefix { return behind(private, standInBits) }

// BalancerStandIns are those that stand in for addresses of load balancers.
func BalancerStandIns(private netip.Prefix) netip.Prefix { return behind(private, balancerBits) }

func behind(private netip.Prefix, bits int) netip.Prefix {
	first := OutsideAddress(private, firstBalancer)
	return netip.PrefixFrom(first, first.BitLen()-bits)
}
