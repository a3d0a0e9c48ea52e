package main

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netplugin/agent"
)

// notifySystemd reports the state of the process. It reports "started" before the first state is read from the
// store: that may take as long as the store is unreachable, and the service manager would time out.
func notifySystemd(node *agent.Agent) task {
	return func(ctx context.Context) error {
		tellSystemd(daemon.SdNotifyReady + "\nSTATUS=waiting for the state of the cluster")
		if node.AwaitSync(ctx) == nil {
			tellSystemd("STATUS=serving")
			logrus.WithField("component", "netplugin").Info("ready")
		}
		<-ctx.Done()
		tellSystemd(daemon.SdNotifyStopping)
		return nil
	}
}

// tellSystemd has no effect without a service manager.
func tellSystemd(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logrus.WithError(fmt.Errorf("systemd: %w", err)).Debug("state not reported")
	}
}
