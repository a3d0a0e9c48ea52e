package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// unserved ends TCP connections to a service that is gone. Nobody has its address any more, so the client would send
// its segments again and again until it gives up, after a quarter of an hour. It is refused (refuse.go) before the tiers, which
// know its connection to the provider only.
//
// A segment that begins a connection is not refused: the service may be so new that the agent does not know it yet, and
// the client tries again a second later.
//
// The tenants of encapsulation vlan are left out: the routers outside may have routes to these addresses.
type unserved struct{}

func (unserved) outside(w *Wants, o Outside, _ uint32) {
	for _, r := range o.Ranges {
		f := familyOf(r.Addr())
		w.flow(unreceivedFrom(originLocal, priorityEnded, ofTenant(), f.is(), openflow.IPProto(openflow.ProtoTCP), f.dst(r),
			openflow.TCPFlags(0, openflow.TCPSyn|openflow.TCPRst)).goTo(tableAnswer))
	}
}

// ofTenant matches packets of a tenant that has a VRF of its own: all numbers up to MaxVRF lack the highest bit.
func ofTenant() openflow.FieldMatch {
	return openflow.Reg(regVRF.Index, 0, 1<<(regVRF.Ofs+regVRF.Bits-1))
}
