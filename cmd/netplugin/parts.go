package main

import (
	"context"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/border"
	"github.com/contiv/netplugin/netplugin/cluster"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/netplugin/kubehealth"
	"github.com/contiv/netplugin/netplugin/membership"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/netplugin/nodeapi"
	"github.com/contiv/netplugin/netplugin/tunnelcheck"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/dpkg"
	"github.com/contiv/netplugin/utils/notify"
)

// parts are what the process consists of. Methods connect them, in this order: openStore, programSwitches,
// attachPods, giveHostAccess, serveREST. Each needs what those before it have made.
type parts struct {
	o *options

	db        *objdb.DB
	member    *membership.Member // nil: the node does not join
	master    *cluster.Master
	registrar registrar

	driver  drivers.NetworkDriver
	own     []*ovsd.Driver // one for each bridge, that with the tunnel first
	agent   *agent.Agent
	names   *nameserver.Node
	metrics *prometheus.Registry

	cni         *k8splugin.Server // nil in mode test
	host        *hostaccess.Manager
	portsMoved  notify.Signal   // ports of the host that are forwarded to containers
	podProblems []func() string // of what attaches pods

	core, front []task // see serve
}

// close ends what no task ends.
func (p *parts) close() {
	if p.master != nil {
		p.master.Close()
	}
	if p.db == nil {
		return
	}
	if err := p.db.Close(); err != nil {
		logrus.WithField("component", "netplugin").WithError(err).Debug("closing the store")
	}
}

// openStore opens the store, and the connection to netmasters for what only they do.
func (p *parts) openStore(context.Context) (err error) {
	if p.db, p.member, err = newStore(p.o); err != nil {
		return err
	}
	p.master = cluster.NewMaster(p.db, cluster.Limits{}, nil)
	if p.member != nil {
		p.master.Secure(p.member.TLS)
		p.member.RenewAfter(p.registrar.refused)
		p.front = append(p.front, p.member.Run)
	}
	if len(p.o.masters) > 0 {
		p.front = append(p.front, followMasters(p.o, p.db))
	}
	return nil
}

// programSwitches connects the agent, which carries out the state of the store, to the switches, and what answers
// the packets that these send to the process.
func (p *parts) programSwitches(context.Context) (err error) {
	var routes *border.Border
	p.driver, p.own, routes, err = newDriver(p.o, func() ([]netip.Addr, error) { return p.host.Machines() })
	if err != nil {
		return err
	}
	if p.metrics, err = newMetrics(p.own, routes); err != nil {
		return err
	}
	here, err := hostaccess.Addresses()
	if err != nil {
		return err
	}
	zones := p.o.names.zones()
	p.agent = agent.New(agent.Config{
		Here: here, Needed: neededBy(closedFor(p.o)),
		HostLabel: p.o.node.HostLabel, VTEP: p.o.node.VTEP, FwdMode: p.o.FwdMode, Driver: p.driver, Uplink: len(p.o.uplinks) > 0, Outside: p.o.nat,
		Border: asBorder(routes), DB: p.db, Shown: len(p.o.masters) > 0, Names: zones, Metrics: p.metrics, AnswersFile: answersFile,
	})
	p.names = newNameServer(&p.o.names, zones, p.agent, p.own)
	if err := p.names.Register(p.metrics); err != nil {
		return err
	}
	p.core = append(p.core, p.driver.Run, p.agent.Run, p.stayRegistered())
	for _, bridge := range p.own {
		p.core = append(p.core, tellICMPErrors(bridge, p.agent.NodePortVRF), refuse(bridge), hearAnswers(bridge, p.agent))
	}
	p.front = append(p.front, notifySystemd(p.agent), p.names.Run)
	return nil
}

// stayRegistered keeps the node registered.
func (p *parts) stayRegistered() task {
	authorities := func() string { return "" }
	if p.member != nil {
		authorities = p.member.Authorities
	}
	return p.registrar.stayRegistered(p.db, p.o.node, p.agent.AwaitSync, authorities)
}

// attachPods connects the server that container runtimes ask, and what installs their configuration.
func (p *parts) attachPods(context.Context) (err error) {
	p.portsMoved = notify.New()
	p.cni, err = newCNIServer(p.o, p.master, p.agent, p.driver, p.portsMoved.Send, func(port mastercfg.HostPort) bool { return p.host.Holds(port) })
	if err != nil {
		return err
	}
	if p.cni != nil {
		p.front, p.podProblems = append(p.front, p.cni.Run), append(p.podProblems, p.cni.Problem)
	}
	if p.o.cniConfDir != "" {
		keep, problem := keepCNIConf(p.o.cniConfDir, p.agent)
		p.front, p.podProblems = append(p.front, keep), append(p.podProblems, problem)
	}
	if p.o.Mode == "kubernetes" {
		p.front = append(p.front, kubehealth.New(p.agent, p.cni.ServesAsBefore, logrus.WithField("component", "netplugin")).Run)
	}
	return nil
}

// giveHostAccess connects what manages the host's own interfaces. Drivers and the CNI server ask it.
func (p *parts) giveHostAccess(context.Context) error {
	p.host = p.newHostAccess()
	p.core = append(p.core, p.host.Run)
	return nil
}

// serveREST begins to listen for requests about the node, which its task answers.
func (p *parts) serveREST(ctx context.Context) error {
	installed, tunnel := switchPackage{dpkg.Database}, p.own[0]
	conf := nodeapi.Config{
		Address: p.o.httpAddress, Socket: p.o.socket, CtrlIP: p.o.node.CtrlIP.String(), Agent: p.agent, Attachments: unattached{p.agent}, Names: p.names,
		BGP: p.agent.InspectBGP, Host: p.host.Problem, Pods: p.podProblems, Metrics: p.metrics, Drops: ovsd.DropMetrics(p.own).Inspect, Refused: p.registrar.refused,
		Release: tunnel.Release, Package: installed.version, Replaced: installed.replaced(tunnel.Began), Listeners: tunnel.Listeners,
		Tunnels: tunnelcheck.New(tunnel, p.agent.Tunnels).Ask, Trace: tracer(p.agent, p.own).Trace,
	}
	if p.cni != nil {
		conf.Attachments = p.cni
	}
	if p.member != nil {
		conf.Membership = p.member
	}
	if p.o.Mode == "kubernetes" {
		conf.KubeProxy = new(hostaccess.KubeProxy).Find
	}
	api, err := nodeapi.Listen(ctx, conf)
	if err != nil {
		return err
	}
	p.front = append(p.front, api.Serve)
	return nil
}
