package main

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/domains"
	"github.com/contiv/netplugin/netplugin/icmperror"
	"github.com/contiv/netplugin/netplugin/refusal"
)

// tellICMPErrors sends endpoints the ICMP errors of routers about their packets.
func tellICMPErrors(bus drivers.PacketBus, vrfOf icmperror.NodePorts) task {
	return func(ctx context.Context) error {
		return icmperror.Serve(ctx, bus, vrfOf, logrus.WithField("component", "icmperror"))
	}
}

// refuse rejects packets of clients to services without providers.
func refuse(bus drivers.PacketBus) task {
	return func(ctx context.Context) error {
		return refusal.Serve(ctx, bus, logrus.WithField("component", "refusal"))
	}
}

// hearAnswers passes the DNS answers that endpoints receive to the agent.
func hearAnswers(bus drivers.PacketBus, of domains.Listener) task {
	return func(ctx context.Context) error { return domains.Serve(ctx, bus, of) }
}

// answersFile holds these answers for the next agent. It does not survive a reboot, nor do the pods.
const answersFile = "/run/contiv/names.json"
