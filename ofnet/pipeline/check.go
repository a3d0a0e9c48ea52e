package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/utils/fault"
)

// check says why an object cannot be expressed in flows; nil if it can. What
// it refuses gets no flows at all: a rule without its unknown flag would mean
// something else, and a zero VRF would be everybody's.
func check(o Object) error {
	switch o := o.(type) {
	case Network:
		return checkNetwork(o)
	case Endpoint:
		return checkEndpoint(o)
	case Rule:
		return checkRule(o)
	default:
		return fault.New(fault.Unsupported, "object %T: the pipeline has no flows for this kind", o)
	}
}

// Limits of the identifiers that end up in registers and tunnel headers.
const (
	maxLocalTag = 1<<14 - 1 // as many as networks can have VNIs
	maxVNI      = 1<<24 - 1
	maxPriority = 100
)

func checkNetwork(n Network) error {
	if err := checkSegment("network", n.ID, n.VRF, n.Tag, n.VNI); err != nil {
		return err
	}
	return checkAddresses("network", n.ID, n.Gateway, n.Gateway6)
}

func checkEndpoint(e Endpoint) error {
	if err := checkSegment("endpoint", e.ID, e.VRF, e.Tag, e.VNI); err != nil {
		return err
	}
	if e.MAC == ([6]byte{}) || e.MAC[0]&1 != 0 {
		return fault.New(fault.Invalid, "endpoint %s: MAC %x is not that of one host", e.ID, e.MAC)
	}
	return checkAddresses("endpoint", e.ID, e.IPv4, e.IPv6)
}

func checkSegment(kind, id string, vrf, vlan uint16, vni uint32) error {
	switch {
	case vrf == 0:
		return fault.New(fault.Invalid, "%s %s: VRF is missing", kind, id)
	case vlan == 0 || vlan > maxLocalTag:
		return fault.New(fault.Invalid, "%s %s: local tag %d is not in 1..%d", kind, id, vlan, maxLocalTag)
	case vni == 0 || vni > maxVNI:
		return fault.New(fault.Invalid, "%s %s: VNI %d is not in 1..%d", kind, id, vni, maxVNI)
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
	if r.Priority < 1 || r.Priority > maxPriority {
		return fault.New(fault.Invalid, "rule %s: priority %d is not in 1..%d", r.ID, r.Priority, maxPriority)
	}
	if _, ok := tcpFlags[r.TCPFlags]; !ok && r.TCPFlags != "" {
		return fault.New(fault.Invalid, "rule %s: TCP flags %q are unknown", r.ID, r.TCPFlags)
	}
	if r.Src.IsValid() && r.Dst.IsValid() && r.Src.Addr().Is4() != r.Dst.Addr().Is4() {
		return fault.New(fault.Invalid, "rule %s: %s and %s are of different IP versions", r.ID, r.Src, r.Dst)
	}
	return nil
}
