package main

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/utils/buildinfo"
)

// run connects the parts and runs them until ctx ends. Flows and ports remain when it returns: the node continues
// to forward.
func run(ctx context.Context, o *options) error {
	log := logrus.WithField("component", "netplugin")
	log.WithFields(logrus.Fields{
		"version": buildinfo.Get().Version, "host": o.node.HostLabel, "ctrl-ip": o.node.CtrlIP, "vtep-ip": o.node.VTEP,
	}).Info("starting")
	present, err := bePresent(presenceFile)
	if err != nil {
		return err
	}
	defer present.Close()
	if err := mayListen(ctx, o.httpAddress, present); err != nil {
		return err
	}
	sweep(time.Now(), writtenTo(o.join.dir), log)
	if err := openSettings(settingsDir); err != nil {
		return err
	}
	p := &parts{o: o}
	defer p.close()
	for _, connect := range []func(context.Context) error{p.openStore, p.programSwitches, p.attachPods, p.giveHostAccess, p.serveREST} {
		if err := connect(ctx); err != nil {
			return err
		}
	}
	err = serve(ctx, p.core, p.front)
	log.Info("stopped; the switch goes on forwarding")
	return err
}
