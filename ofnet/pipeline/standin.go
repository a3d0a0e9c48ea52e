package pipeline

import (
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// StandIns are private addresses that stand in for addresses of the host itself. Packets to the host's own
// address are the host's, and so it has to translate them to a private address for them to reach the switch:
//
//   - an address of load balancers that is on an interface of the host. It has ports of services, and may have
//     others that are the host's;
//   - a node port of UDP. All node ports are at one address (NodePorts), where the later fragments of a
//     datagram would not show which one they are for. The host has reassembled the datagram, and knows it.
//
// The number of an address or a port depends only on the set of them, so that it is the same in the next run. It is
// a hash, or if that is taken the next free one. Ports for which there is no number are at the address of all.
type StandIns struct {
	balancers map[netip.Addr]uint32
	nodePorts map[uint16]uint32
}

// Numbers that replace a port's in the addresses of stand-ins. No port has one of them.
const (
	firstBalancer     = 0xff00
	balancersOfAHost  = 128
	firstNodePort     = firstBalancer + balancersOfAHost
	nodePortsForParts = outsidePods - firstNodePort
)

// standInBits is how many low bits differ among the addresses of all stand-ins, balancerBits among those for addresses.
const standInBits, balancerBits = 8, 7

// NewStandIns assigns numbers to addresses and to node ports of UDP.
func NewStandIns(balancers []netip.Addr, nodePorts []uint16) StandIns {
	return StandIns{
		numbers(balancers, netip.Addr.Compare, firstBalancer, balancersOfAHost, netip.Addr.AsSlice),
		numbers(nodePorts, func(a, b uint16) int { return int(a) - int(b) }, firstNodePort, nodePortsForParts, func(p uint16) []byte { return []byte{byte(p >> 8), byte(p)} }),
	}
}

// numbers assigns each of some items one of count numbers from first on, visiting the items in their order.
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

// Balancer returns the stand-in for an address of load balancers, if it is one of the host.
func (s StandIns) Balancer(private netip.Prefix, a netip.Addr) (netip.Addr, bool) {
	n, has := s.balancers[a]
	if !has || !private.IsValid() {
		return netip.Addr{}, false
	}
	return OutsideAddress(private, n), true
}

// NodePort returns the address at which the switch has a node port. It is for this port alone, or that of all.
func (s StandIns) NodePort(private netip.Prefix, protocol uint8, port uint16) (at netip.Addr, alone bool) {
	if n, has := s.nodePorts[port]; has && protocol == openflow.ProtoUDP {
		return OutsideAddress(private, n), true
	}
	return NodePorts(private), false
}

// Moved returns the addresses and node ports whose stand-ins have changed or are removed.
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

// Balancers returns the addresses that have a stand-in, ascending.
func (s StandIns) Balancers() []netip.Addr {
	return slices.SortedFunc(maps.Keys(s.balancers), netip.Addr.Compare)
}

// AllStandIns returns a private prefix that contains all of them, that of the node ports, and others that are not
// served.
func AllStandIns(private netip.Prefix) netip.Prefix { return behind(private, standInBits) }

// BalancerStandIns returns the prefix of the stand-ins for addresses of load balancers.
func BalancerStandIns(private netip.Prefix) netip.Prefix { return behind(private, balancerBits) }

func behind(private netip.Prefix, bits int) netip.Prefix {
	first := OutsideAddress(private, firstBalancer)
	return netip.PrefixFrom(first, first.BitLen()-bits)
}
