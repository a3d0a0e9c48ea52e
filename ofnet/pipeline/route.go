package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// route carries packets between the networks of a tenant.
//
// What an endpoint sends to the gateway's MAC is routed by VRF and destination
// address: it gets the receiver's MAC and network, the gateway's MAC as its
// source, and one hop less to live. Where the receiver is does not matter here;
// deliver.go finds it by network and MAC, as for a packet that was switched.
// Everything else stays in its network and is not changed at all.
//
// A receiver in the sender's own network is routed just the same: a host may
// have no route but the default one.
//
// A packet that cannot live another hop is dropped by a flow of its own.
// Counting the TTL down to zero would raise a packet-in for each, and nobody
// listens.
//
// A packet out of the tunnel was routed by its sender.
type route struct {
	silent
	gateway [6]byte
}

func (r route) base() []openflow.Flow {
	flows := []openflow.Flow{
		at(tableRoute, priorityGuard, regFromTunnel.is(1)).goTo(tableDeliver),
		at(tableRoute, priorityOther, openflow.EthDst(r.gateway)).goTo(tableHostSNAT),
	}
	for _, f := range []family{ipv4(), ipv6()} {
		for ttl := range uint8(2) {
			flows = append(flows, at(tableRoute, priorityExcept,
				openflow.EthDst(r.gateway), f.is(), openflow.IPTTL(ttl)).drop())
		}
	}
	return flows
}

func (r route) endpoint(e placed) []openflow.Flow {
	var flows []openflow.Flow
	for _, a := range e.addresses() {
		f := familyOf(a)
		flows = append(flows, at(tableRoute, priorityExact,
			regVRF.is(uint32(e.VRF)), openflow.EthDst(r.gateway), f.is(), f.dst(openflow.Host(a))).
			do(
				openflow.DecTTL{},
				set(openflow.EthSrc(r.gateway)),
				set(openflow.EthDst(e.MAC)),
				regNetwork.set(uint32(e.Tag)),
			).goTo(tableDeliver))
	}
	return flows
}
