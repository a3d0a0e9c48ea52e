package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// input is the way in from a local port, and the spoof guard.
//
// A port belongs to one endpoint and may speak for it only: with its MAC and
// one of its addresses. That is decided once, here, and everything behind
// relies on it: policy may judge by address because addresses are true.
//
//	IPv4, IPv6      own MAC, own address             -> on to the policy
//	ARP             own MAC, sender's MAC, own       -> ARP
//	                address or none (a probe)
//	neighbour       own MAC; own address, a          -> ND
//	solicitation    link-local one, or none (DAD)
//	all the rest    counted per endpoint             -> dropped
//
// Link-local addresses serve neighbour discovery and nothing else: they are
// not in the store, so nobody could say whose they are.
type input struct{ silent }

// groupBit is the bit that makes a MAC a multicast or broadcast address.
var groupBit = [6]byte{0x01}

func (input) base() []openflow.Flow {
	return []openflow.Flow{
		at(tableInput, priorityGuard, openflow.EthSrcMasked(groupBit, groupBit)).drop(),
		// A tag would hide from the guard which network the packet ends in.
		at(tableInput, priorityGuard, openflow.VLANAny()).drop(),
	}
}

func (input) endpoint(e placed) []openflow.Flow {
	if !e.local() {
		return nil
	}
	flows := []openflow.Flow{at(tablePort, priorityOther, openflow.InPort(e.port)).drop()}
	for _, a := range e.addresses() {
		f := familyOf(a)
		flows = append(flows, e.from(priorityExact, f.is(), f.src(openflow.Host(a))).goTo(tableDNAT))
	}
	if e.IPv4.IsValid() {
		for _, sender := range []netip.Addr{e.IPv4, netip.IPv4Unspecified()} {
			flows = append(flows, e.from(priorityExact, openflow.EthType(openflow.EthTypeARP),
				openflow.ARPSha(e.MAC), openflow.ARPSpa(openflow.Host(sender))).goTo(tableARP))
		}
	}
	if e.IPv6.IsValid() {
		for _, sender := range []netip.Prefix{openflow.Host(e.IPv6), linkLocal, openflow.Host(netip.IPv6Unspecified())} {
			flows = append(flows, e.from(priorityExcept, append(solicitation(), openflow.IPv6Src(sender))...).goTo(tableND))
		}
	}
	return flows
}

// linkLocal are the addresses every IPv6 interface makes for itself.
var linkLocal = netip.MustParsePrefix("fe80::/64")

// from matches what an endpoint sends from its port with its MAC, and writes
// down who it is.
func (e placed) from(priority uint16, match ...openflow.FieldMatch) draft {
	own := []openflow.FieldMatch{openflow.InPort(e.port), openflow.EthSrc(e.MAC)}
	d := at(tablePort, priority, append(own, match...)...).
		do(regVRF.set(uint32(e.VRF)), regNetwork.set(uint32(e.Tag)))
	if e.Group != 0 {
		d = d.do(regSrcGroup.set(uint32(e.Group)))
	}
	return d
}
