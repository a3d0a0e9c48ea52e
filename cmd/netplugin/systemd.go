package main

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netplugin/agent"
)

// notifySystemd reports the state of the process. It counts as started before
// the first state is there: that may take as long as the store is away, and a
// service manager would lose patience.
func notifySystemd(node *agent.Agent) task {
	return func(ctx context.Context) error {
		notify(daemon.SdNotifyReady + "\nSTATUS=waiting for the state of the cluster")
		if node.AwaitSync(ctx) == nil {
			notify("STATUS=serving")
			logrus.WithField("component", "netplugin").Info("ready")
		}
		<-ctx.Done()
		notify(daemon.SdNotifyStopping)
		return nil
	}
}

// notify is without effect where no service manager listens.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logrus.WithError(fmt.Errorf("systemd: %w", err)).Debug("state not reported")
	}
}
