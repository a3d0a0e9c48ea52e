// Package icmperror tells endpoints what routers say of their packets, as the routers of the Internet do: that they are too
// big for their way (path MTU discovery, RFC 1191 and RFC 8201), have lived too long, or could not be delivered. There are four cases:
//
//   - The way to other nodes carries less than an endpoint sends. The switch is the
//     router, and sends the packet here; the answer is an ICMP error from the gateway of
//     the endpoint's network (toobig.go).
//   - A router outside says so, or that a packet could not be delivered for another
//     reason. What it quotes of the packet has the address that the host knows the
//     endpoint by, and gets the endpoint's own (quoted.go).
//   - A packet cannot live another hop at the gateway of the endpoint's network, as the first ones of traceroute. The answer is
//     that gateway's, too (answer.go).
//   - A router outside says so of an answer from a node port. The switch knows what to do
//     with it, but not whose the port is (nodeport.go).
//
// How many packets come here is limited in the switch; see toobig.go, expired.go and quoted.go of
// ofnet/pipeline. What is damaged is not answered.
package icmperror

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Serve answers what the switch sends until ctx is done. An answer that the switch does
// not take is lost, as any packet may be.
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
	frame := Expired(p.Data, router)
	return p.Answer(frame), frame != nil
}

func packetTooBig(p pipeline.Packet) (openflow.PacketOut, bool) {
	mtu, router, ok := p.TooBig()
	if !ok {
		return openflow.PacketOut{}, false
	}
	frame := TooBig(p.Data, mtu, router)
	return p.Answer(frame), frame != nil
}

func restore(p pipeline.Packet) (openflow.PacketOut, bool) {
	frame := Restored(p.Data)
	return p.Deliver(frame), frame != nil
}
