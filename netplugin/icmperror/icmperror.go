// Package icmperror sends endpoints the ICMP errors that routers of the Internet would send: packet too big (path
// MTU discovery, RFC 1191 and RFC 8201), hop limit exceeded, destination unreachable. There are four cases:
//
//   - The tunnel to other nodes has a smaller MTU than the packet of an endpoint. The switch is the router, and
//     sends the packet here; the answer is an ICMP error from the gateway of the endpoint's network (toobig.go).
//   - An external router reports that, or that a packet could not be delivered for another reason. The quoted
//     packet has the address that the host knows the endpoint by; it is replaced by the endpoint's own
//     (quoted.go).
//   - A packet's hop limit expires at the gateway of the endpoint's network, as for the first probes of
//     traceroute. The answer is an ICMP error from that gateway, too (answer.go).
//   - An external router sends an error about an answer from a node port. The switch has flows for it, but does
//     not know the tenant of the port (nodeport.go).
//
// The switch limits the rate of packets to this package; see toobig.go, expired.go and quoted.go of
// ofnet/pipeline. Malformed packets are not answered.
package icmperror

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Serve answers the packets that the switch sends until ctx is done. An answer that the switch does not accept is
// lost, as any packet may be.
func Serve(ctx context.Context, bus drivers.PacketBus, vrfOf NodePorts, log *logrus.Entry) error {
	tooBig, expired, errors := bus.Packets(pipeline.PacketTooBig), bus.Packets(pipeline.PacketExpired), bus.Packets(pipeline.PacketError)
	for {
		var out openflow.PacketOut
		var ok bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case p := <-tooBig:
			out, ok = packetTooBig(p)
		case p := <-expired:
			out, ok = timeExceeded(p)
		case p := <-errors:
			if p.AboutNodePort() {
				out, ok = vrfOf.enter(p)
			} else {
				out, ok = restore(p)
			}
		}
		if !ok {
			continue
		}
		if err := bus.Send(ctx, out); err != nil {
			log.WithError(err).Debug("an endpoint is not told what became of a packet")
		}
	}
}

func timeExceeded(p pipeline.Packet) (openflow.PacketOut, bool) {
	router, ok := p.Expired()
	if !ok {
		return openflow.PacketOut{}, false
	}
	frame := expiredError(p.Data, router)
	return p.Answer(frame), frame != nil
}

func packetTooBig(p pipeline.Packet) (openflow.PacketOut, bool) {
	mtu, router, ok := p.TooBig()
	if !ok {
		return openflow.PacketOut{}, false
	}
	frame := tooBigError(p.Data, mtu, router)
	return p.Answer(frame), frame != nil
}

func restore(p pipeline.Packet) (openflow.PacketOut, bool) {
	frame := restored(p.Data)
	return p.Deliver(frame), frame != nil
}
