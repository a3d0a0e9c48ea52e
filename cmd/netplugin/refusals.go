package main

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/domains"
	"github.com/contiv/netplugin/netplugin/icmperror"
	"github.com/contiv/netplugin/netplugin/refusal"
)

// tellICMPErrors tells endpoints what routers say of their packets.
func tellICMPErrors(bus drivers.PacketBus, vrfOf icmperror.NodePorts) task {
	return func(ctx context.Context) error {
		return icmperror.Serve(ctx, bus, vrfOf, logrus.WithField("component", "icmperror"))
	}
}

// refuse tells the clients of services that nobody serves them.
func refuse(bus drivers.PacketBus) task {
	return func(ctx context.Context) error {
		return refusal.Serve(ctx, bus, logrus.WithField("component", "refusal"))
	}
}

// hearAnswers tells the agent what endpoints are told that names stand for.
func hearAnswers(bus drivers.PacketBus, of domains.Listener) task {
	return func(ctx context.Context) error { return domains.Serve(ctx, bus, of) }
}

// answersFile is where the next agent finds what this one has heard. It is gone after a reboot, as are the pods.
const answersFile = "/run/contiv/names.json"
