package main

import (
	"context"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/refusal"
)

// refuse tells the clients of services that nobody serves them.
func refuse(bus drivers.PacketBus) task {
	return func(ctx context.Context) error {
		return refusal.Serve(ctx, bus, logrus.WithField("component", "refusal"))
	}
}
