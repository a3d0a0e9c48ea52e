package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/bridges"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/announcer"
	"github.com/contiv/netplugin/netplugin/border"
	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/netplugin/kubehealth"
	"github.com/contiv/netplugin/netplugin/nodeapi"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/bell"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// run puts the parts together and runs them until ctx is done. Flows and ports
// stay when it returns: the node goes on forwarding.
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
	if err := openSettings(settingsDir); err != nil {
		return err
	}
	db, member, err := newStore(o)
	if err != nil {
		return err
	}
	defer func() {
		if err := db.Close(); err != nil {
			log.WithError(err).Debug("closing the store")
		}
	}()
	driver, own, routes, err := newDriver(o)
	if err != nil {
		return err
	}
	metrics, err := newRegistry()
	if err != nil {
		return err
	}
	if routes != nil {
		if err := routes.Register(metrics); err != nil {
			return err
		}
	}
	drops := ovsd.DropMetrics(own)
	if err := errors.Join(metrics.Register(drops), metrics.Register(ovsd.DatapathMetrics(own))); err != nil {
		return err
	}
	zones := o.names.zones()
	node := agent.New(agent.Config{
		HostLabel: o.node.HostLabel, VTEP: o.node.VTEP, FwdMode: o.FwdMode, Driver: driver, Uplink: len(o.uplinks) > 0, Outside: o.nat, Border: asBorder(routes), DB: db, Names: zones, Metrics: metrics, AnswersFile: answersFile,
	})
	names := newNameServer(&o.names, zones, node, own)
	if err := names.Register(metrics); err != nil {
		return err
	}
	master := cluster.NewMaster(db, cluster.Limits{}, nil)
	defer master.Close()
	front := []task{notifySystemd(node)}
	var joined nodeapi.Membership
	authorities := func() string { return "" }
	if member != nil {
		master.Secure(member.TLS)
		front, joined, authorities = append(front, member.Run), member, member.Authorities
	}
	if len(o.masters) > 0 {
		front = append(front, followMasters(o, db))
	}
	var attachments nodeapi.Attachments = unattached{node}
	portsMoved := bell.New() // of the host, to containers
	cni, err := newCNIServer(o, master, node, driver, portsMoved.Ring)
	if err != nil {
		return err
	}
	if cni != nil {
		front, attachments = append(front, cni.Run), cni
	}
	var podsProblem func() string
	if o.cniConfDir != "" {
		var keep task
		keep, podsProblem = keepCNIConf(o.cniConfDir, node)
		front = append(front, keep)
	}
	host := newHostAccess(o, node, master, db, driver, hostPorts(cni, node, driver), portsMoved)
	api, err := nodeapi.Listen(ctx, nodeapi.Config{
		Address: o.httpAddress, CtrlIP: o.node.CtrlIP.String(), Agent: node, Attachments: attachments, Names: names, BGP: inspectBGP(routes), Host: host.Problem, Pods: podsProblem, Metrics: metrics, Drops: drops.Inspect, Membership: joined,
	})
	if err != nil {
		return err
	}
	front = append(front, api.Serve, names.Run)
	if o.Mode == "kubernetes" {
		front = append(front, kubehealth.New(node, log).Run)
	}
	tasks := []task{driver.Run, node.Run, announce(db, o.node, node.AwaitSync, authorities), host.Run}
	for _, bridge := range own {
		tasks = append(tasks, tellPathMTU(bridge), refuse(bridge), hearAnswers(bridge, node))
	}
	err = serve(ctx, tasks, front)
	log.Info("stopped; the switch goes on forwarding")
	return err
}

// newDriver makes the driver of the node's bridges, and those of each: one with a tunnel, and
// if there are uplinks one with those.
func newDriver(o *options) (node drivers.NetworkDriver, own []*ovsd.Driver, routes *border.Border, err error) {
	both := ovsd.Config{RunDir: o.runDir, Datapath: o.datapath, Names: o.names.on, NoSizeChecks: !o.tooBig, ZoneLimit: o.tenantConnections, Tenants: &ovsd.Tenants{}}
	config := both
	config.VTEP, config.VXLANPort = o.node.VTEP, o.node.VXLANPort
	tunnel, err := ovsd.New(config)
	if err != nil || len(o.uplinks) == 0 {
		return tunnel, []*ovsd.Driver{tunnel}, nil, err
	}
	config = both
	config.Uplinks = o.uplinks
	vlan, err := ovsd.New(config)
	if err != nil {
		return nil, nil, nil, err
	}
	links, err := uplink.New(uplink.Config{RunDir: o.runDir, Serves: ovsd.DefaultUplinkBridge, Links: o.uplinks, Mode: o.bondMode})
	if err != nil {
		return nil, nil, nil, err
	}
	routes = border.New(border.Config{Driver: announcer.New(vlan, links.Returned())})
	return bridges.New(tunnel, routes, links), []*ovsd.Driver{tunnel, vlan}, routes, nil
}

func storeConfig(o *options) objdb.Config {
	user, password := o.Store.Credentials()
	return objdb.Config{
		Endpoints: o.Store.Endpoints, CAFile: o.Store.CAFile, CertFile: o.Store.CertFile, KeyFile: o.Store.KeyFile,
		ServerName: o.Store.ServerName, User: user, Password: password,
	}
}

// newRegistry holds the numbers of all parts, and those of the process.
func newRegistry() (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	process := collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	return registry, errors.Join(registry.Register(collectors.NewGoCollector()), registry.Register(process))
}

// addressesEvery is how often a node looks which addresses it has.
const addressesEvery = 15 * time.Second

// authoritiesEvery is how often it is looked by which authorities the node believes
// netmasters: until these know, they do not ask it over TLS.
const authoritiesEvery = time.Second

// announce keeps the node registered, with the addresses and authorities that it has by now, and that it can attach endpoints as soon as it can. It does not withdraw the node at the end,
// which Close would do: the switch forwards on, and the next agent is usually
// here before the lease runs out.
func announce(db *objdb.DB, node cluster.Node, awaitSync func(context.Context) error, authorities func() string) task {
	return func(ctx context.Context) error {
		ctx, stop := context.WithCancel(ctx)
		var waiting sync.WaitGroup
		defer waiting.Wait()
		defer stop()
		ready := make(chan struct{})
		waiting.Go(func() {
			if awaitSync(ctx) == nil {
				close(ready)
			}
		})
		node.Authorities = authorities()
		told, said := hostaddr.All(), node
		registration, err := db.Register(ctx, cluster.RegistrationTTL, node.Services(told...)...)
		if err != nil {
			return err
		}
		again := time.NewTicker(addressesEvery)
		defer again.Stop()
		joining := time.NewTicker(authoritiesEvery)
		defer joining.Stop()
		for {
			select {
			case <-joining.C:
				if authorities() == node.Authorities {
					continue
				}
			case <-again.C:
			case <-ready:
				node.Ready, ready = true, nil
			case <-ctx.Done():
				return nil
			}
			node.Authorities = authorities()
			if now := hostaddr.All(); node != said || !slices.Equal(now, told) {
				registration.Update(node.Services(now...)...)
				told, said = now, node
			}
		}
	}
}
