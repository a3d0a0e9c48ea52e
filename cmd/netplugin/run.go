package main

import (
	"context"
	"net/netip"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/netplugin/kubehealth"
	"github.com/contiv/netplugin/netplugin/nodeapi"
	"github.com/contiv/netplugin/netplugin/tunnelcheck"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/dpkg"
	"github.com/contiv/netplugin/utils/notify"
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
	sweep(time.Now(), writtenTo(o.join.dir), log)
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
	var host *hostaccess.Manager // depends on the CNI server and drivers, and they on it
	driver, own, routes, err := newDriver(o, func() ([]netip.Addr, error) { return host.Machines() })
	if err != nil {
		return err
	}
	metrics, err := newMetrics(own, routes)
	if err != nil {
		return err
	}
	zones := o.names.zones()
	here, err := hostaccess.Addresses()
	if err != nil {
		return err
	}
	node := agent.New(agent.Config{
		Here: here, Needed: neededBy(closedFor(o)),
		HostLabel: o.node.HostLabel, VTEP: o.node.VTEP, FwdMode: o.FwdMode, Driver: driver, Uplink: len(o.uplinks) > 0, Outside: o.nat,
		Border: asBorder(routes), DB: db, Shown: len(o.masters) > 0, Names: zones, Metrics: metrics, AnswersFile: answersFile,
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
	portsMoved := notify.New() // ports of the host that are forwarded to containers
	cni, err := newCNIServer(o, master, node, driver, portsMoved.Send, func(p mastercfg.HostPort) bool { return host.Holds(p) })
	if err != nil {
		return err
	}
	var podProblems []func() string
	if cni != nil {
		front, attachments, podProblems = append(front, cni.Run), cni, append(podProblems, cni.Problem)
	}
	if o.cniConfDir != "" {
		keep, problem := keepCNIConf(o.cniConfDir, node)
		front, podProblems = append(front, keep), append(podProblems, problem)
	}
	host = newHostAccess(o, node, master, db, driver, own[0], cni, portsMoved)
	var kubeProxy func(context.Context) (string, error)
	if o.Mode == "kubernetes" {
		kubeProxy = new(hostaccess.KubeProxy).Find
	}
	installed := switchPackage{dpkg.Database}
	var place registrar
	api, err := nodeapi.Listen(ctx, nodeapi.Config{
		Address: o.httpAddress, Socket: o.socket, CtrlIP: o.node.CtrlIP.String(), Agent: node, Attachments: attachments, Names: names,
		BGP: node.InspectBGP, Host: host.Problem, Pods: podProblems, KubeProxy: kubeProxy, Metrics: metrics, Drops: ovsd.DropMetrics(own).Inspect, Membership: joined, Refused: place.refused,
		Release: own[0].Release, Package: installed.version, Replaced: installed.replaced(own[0].Began), Listeners: own[0].Listeners,
		Tunnels: tunnelcheck.New(own[0], node.Tunnels).Ask, Trace: tracer(node, own).Trace,
	})
	if err != nil {
		return err
	}
	front = append(front, api.Serve, names.Run)
	if o.Mode == "kubernetes" {
		front = append(front, kubehealth.New(node, cni.ServesAsBefore, log).Run)
	}
	tasks := []task{driver.Run, node.Run, place.stayRegistered(db, o.node, node.AwaitSync, authorities), host.Run}
	for _, bridge := range own {
		tasks = append(tasks, tellICMPErrors(bridge, node.NodePortVRF), refuse(bridge), hearAnswers(bridge, node))
	}
	err = serve(ctx, tasks, front)
	log.Info("stopped; the switch goes on forwarding")
	return err
}
