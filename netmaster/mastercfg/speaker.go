package mastercfg

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// BgpSpeaker is the parsed record of a BGP speaker.
type BgpSpeaker struct {
	AS         uint32         // 0: none, and no neighbours
	Link       netip.Prefix   // its IPv4 address among the routers, with the length of their subnet
	Link6      netip.Prefix   // the same of IPv6; invalid: none
	Neighbours []BgpNeighbour // each address once
	Password   secret.Text    // empty: none
	HoldTime   time.Duration  // 0: the speaker's default
}

// BgpNeighbour is a router to speak with.
type BgpNeighbour struct {
	Address netip.Addr
	AS      uint32
}

// Limits of a speaker.
const (
	maxBgpNeighbours = 32
	minBgpHoldTime   = 3 // seconds; RFC 4271
)

// Speaker parses a record. An error is a fault.Invalid that names the field of the model.
func (r CfgBgpState) Speaker() (BgpSpeaker, error) {
	s := BgpSpeaker{Password: r.Password, HoldTime: time.Duration(r.HoldTime) * time.Second}
	if r.HoldTime != 0 && r.HoldTime < minBgpHoldTime {
		return s, wrongBgp("holdTime", "%d: want %d to 65535 seconds, or 0 for 90", r.HoldTime, minBgpHoldTime)
	}
	var err error
	if s.Link, err = netip.ParsePrefix(r.RouterIP); err != nil || !s.Link.Addr().Is4() || !isHostOf(s.Link, s.Link.Addr()) {
		return s, wrongBgp("routerip", "%q: want the IPv4 address of one host with a length, such as 192.0.2.11/24", r.RouterIP)
	}
	if r.RouterIPv6 != "" {
		if s.Link6, err = netip.ParsePrefix(r.RouterIPv6); err != nil || !s.Link6.Addr().Is6() || !isHostOf(s.Link6, s.Link6.Addr()) {
			return s, wrongBgp("ipv6Routerip", "%q: want the IPv6 address of one host with a length, such as 2001:db8::11/64", r.RouterIPv6)
		}
	}
	if r.As != "" || r.Neighbor != "" || len(r.Neighbors) > 0 {
		if s.AS, err = asNumber("as", r.As); err != nil {
			return s, err
		}
	}
	if r.Neighbor != "" {
		if err := s.add("neighbor", r.Neighbor, "neighbor-as", r.NeighborAs); err != nil {
			return s, err
		}
	}
	for _, text := range r.Neighbors {
		address, as, ok := strings.Cut(text, "=")
		if !ok {
			return s, wrongBgp("neighbors", "%q: want address=AS, such as 192.0.2.2=65100", text)
		}
		if err := s.add("neighbors", address, "neighbors", as); err != nil {
			return s, err
		}
	}
	if len(s.Neighbours) > maxBgpNeighbours {
		return s, wrongBgp("neighbors", "has %d neighbours, want at most %d", len(s.Neighbours), maxBgpNeighbours)
	}
	return s, nil
}

// add adds a neighbour, by the fields of its address and its AS.
func (s *BgpSpeaker) add(addressField, address, asField, as string) error {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Is4In6() || a.Zone() != "" {
		return wrongBgp(addressField, "%q is not an address", address)
	}
	link := s.Link
	if a.Is6() {
		link = s.Link6
	}
	switch {
	case !link.IsValid():
		return wrongBgp(addressField, "%s: a neighbour of IPv6 needs ipv6Routerip", a)
	case a == link.Addr():
		return wrongBgp(addressField, "%s is the node's own address", a)
	case !link.Contains(a) || !isHostOf(link, a):
		return wrongBgp(addressField, "%s is not a router of %s, the node's link", a, link.Masked())
	}
	for _, n := range s.Neighbours {
		if n.Address == a {
			return wrongBgp(addressField, "%s is given twice", a)
		}
	}
	n := BgpNeighbour{Address: a}
	if n.AS, err = asNumber(asField, as); err != nil {
		return err
	}
	s.Neighbours = append(s.Neighbours, n)
	return nil
}

// OfAllRouters reports whether an address with its prefix length is the Subnet-Router anycast address of an
// IPv6 link (RFC 4291, 2.6.1). Records of earlier versions may have it.
func OfAllRouters(link netip.Prefix) bool {
	return link.Addr().Is6() && link.Bits() < 127 && link.Addr() == link.Masked().Addr()
}

// isHostOf reports whether an address of a link can be that of a host. In IPv4 the first and the last one
// cannot, unless there are only two (RFC 3021).
func isHostOf(link netip.Prefix, a netip.Addr) bool {
	if a.Is6() {
		return !a.IsUnspecified() && !a.IsMulticast() && !a.Is4In6() && !a.IsLinkLocalUnicast()
	}
	if a.IsUnspecified() || a.IsMulticast() || a.IsLoopback() {
		return false
	}
	if link.Bits() >= 31 {
		return true
	}
	return link.Contains(a.Prev()) && link.Contains(a.Next())
}

// asNumber parses an AS number, as one number or as two (RFC 5396): 65546 is 1.10.
func asNumber(field, text string) (uint32, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if high, low, dotted := strings.Cut(text, "."); dotted {
		var h, l uint64
		if h, err = strconv.ParseUint(high, 10, 16); err == nil {
			l, err = strconv.ParseUint(low, 10, 16)
		}
		number = h<<16 | l
	}
	if err != nil || number == 0 {
		return 0, wrongBgp(field, "%q is not the number of an AS: want 1 to 4294967295, or 1.10", text)
	}
	return uint32(number), nil
}

func wrongBgp(field, format string, args ...any) error {
	return fault.New(fault.Invalid, field+" "+format, args...).WithField(field)
}
