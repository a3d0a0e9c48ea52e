// Package daemon runs a netmaster.
//
// All netmasters of a cluster run the same loop: stand for election, lead until the term ends, stand again. One
// listener stays open all the time; its handler changes with the role.
//
//	            campaign won             ledger open, reconciled
//	follower ------------------> opening a term -------------> leader
//	    ^     forwards requests    requests wait a moment         |  serves the API
//	    +---------------------------------------------------------+
//	                    term ends (for whatever reason)
//
// A term has its own ledger and its own API; neither outlives the term, so that a deposed leader cannot write.
// A follower caches the state by a watch, and its ledger begins with that. Requests in flight at the end of a
// term are refused as unavailable, and their clients repeat them with the successor.
//
//	new.go       how the parts are put together
//	term.go      one term: ledger, repairs, API
//	front.go     which role answers; proxy.go forwards to the leader
//	listeners.go addresses and sockets; server.go HTTP limits; shedder.go limits idle connections
//	connection.go  TLS and plain on one port; handshakes.go limits them; identify.go authenticates; mode.go whether plain is served
//	             (connections of agents that read the state are handed over to package gate)
//	certificates.go  CAs and own certificates; tlsconfig.go which peers they trust;
//	             bootstrap.go makes them for a cluster, joining.go sends them to another netmaster,
//	rotation.go  and replaced ones to all; removed.go netmasters that are not trusted any more
//	member.go    the embedded member of the store; memberspace.go its space;
//	entering.go  how a member with TLS joins its cluster; storecert.go its certificate
package daemon

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/gate"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/space"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/notify"
	"github.com/contiv/netplugin/utils/retry"
)

// Config is the configuration of a netmaster.
type Config struct {
	Listen  string // external address, address:port
	Control string // control address: value of the leader lock, registered address

	Store    objdb.Config
	Embedded *embedded.Config // nil: etcd runs elsewhere

	API api.Config // Self is set by the daemon
	// Follow follows Kubernetes while this netmaster leads, until ctx ends; after an error it is
	// called again. nil: there is no Kubernetes.
	Follow func(ctx context.Context, opened *ledger.Ledger, model *api.API, log *logrus.Entry) error
	// Metrics are served beside the daemon's own.
	Metrics []prometheus.Collector

	Security Security // the zero value: plain HTTP, without authentication

	LeaderTTL time.Duration // longest takeover after a leader has died
	NodeGrace time.Duration // how long a node may be away before its endpoints are freed

	ReconcileEvery time.Duration // 0: 10 minutes
	SweepEvery     time.Duration // 0: 30 seconds; check for nodes that are gone
	WarnEvery      time.Duration // 0: an hour; warns that the cluster is open
	Log            *logrus.Entry

	requestLimit time.Duration // for reading a request and for writing its answer; 0: those of server.go
	headerLimit  time.Duration // for its header; 0: as well

	addresses      func() []string // of this machine; nil: hostaddr.All
	addressesEvery time.Duration   // how often that is asked; 0: 15 seconds
}

const (
	serviceTTL = 10 * time.Second
	// drainTime is the time for requests in flight at shutdown. A successor can only begin after it.
	drainTime = 300 * time.Millisecond
	// partingTime is the limit for withdrawing the registration from the store.
	partingTime = 3 * time.Second
	// memberStopTime limits the time to stop the embedded store.
	memberStopTime = 10 * time.Second
)

// Daemon is a netmaster.
type Daemon struct {
	cfg          Config
	log          *logrus.Entry
	db           *objdb.DB
	front        *front
	metrics      *metrics
	space        *space.Keeper
	certificates *certificates
	keyring      *keyring.Keyring // nil: no secrets are stored
	values       *values          // nil: encrypted values of the store cannot be read
	mode         *mode
	removed      *removals
	refusals     *auth.EarlyRefusals
	handshakes   *handshakes
	member       *member
	promoting    notify.Signal // a member was added
	toJoin       atomic.Bool   // this netmaster has no CAs and is to get them by joining

	announcing sync.Mutex // held to change the registration
	service    *objdb.Registration
	gate       *gate.Gate
}

// Run serves until ctx ends, then shuts down: it stops accepting, lets requests in flight finish, resigns, withdraws
// its registration and stops the embedded store, in this order. It returns early only if it cannot serve.
func (d *Daemon) Run(ctx context.Context) error {
	defer func() {
		if err := d.db.Close(); err != nil {
			d.log.WithError(err).Warn("closing the store")
		}
	}()
	d.sweep(time.Now())
	listeners, err := d.listeners()
	if err != nil {
		return err
	}
	server := d.newServer()
	failed := server.start(listeners)
	if err := d.member.Start(ctx); err != nil {
		return errors.Join(err, server.stop(0))
	}

	// Leading and the registration go on while requests drain.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := d.register(working); err != nil {
		return errors.Join(err, server.stop(0))
	}
	var leading sync.WaitGroup
	unfit := make(chan error, 1)
	leading.Go(func() {
		if err := d.loop(working, ctx); err != nil {
			unfit <- err
		}
	})
	d.startFollowerTasks(working, &leading)
	endAudit := d.startAudit(ctx)
	d.log.WithFields(logrus.Fields{"listen": d.cfg.Listen, "control": d.cfg.Control}).Info("netmaster serves")
	d.notify(daemon.SdNotifyReady)

	select {
	case <-ctx.Done():
	case err = <-failed:
	case err = <-unfit:
	case err = <-d.member.Err():
	}
	d.notify(daemon.SdNotifyStopping)
	err = errors.Join(err, server.stop(drainTime))
	stop()
	leading.Wait()
	err = errors.Join(err, d.part(ctx, server))
	endAudit()
	d.log.Info("netmaster stopped")
	return err
}

// register registers this netmaster, and updates the registration until ctx ends.
func (d *Daemon) register(ctx context.Context) (err error) {
	if d.service, err = d.db.Register(ctx, serviceTTL, d.registered()...); err != nil {
		return err
	}
	d.certificates.changed, d.member.announce = d.announce, d.announce
	d.keyring.OnChange(func() { d.announce(); d.gate.KeyringChanged(); d.values.turned.Send() })
	return nil
}

// part withdraws the registration and stops the embedded store, after which the last changes are answered.
func (d *Daemon) part(ctx context.Context, server *server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
	defer cancel()
	err := errors.Join(d.service.Close(ctx), d.member.Stop())
	server.conn.awaitAnswered(ctx) // a change whose client is gone is audited, too
	return err
}

// startAudit writes the audit log until end is called, which returns when all is written.
func (d *Daemon) startAudit(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var writing sync.WaitGroup
	writing.Go(func() { d.cfg.API.Audit.Run(ctx) })
	return func() {
		stop()
		writing.Wait()
	}
}

// newServer makes the HTTP server with the limits of the configuration, which tests set shorter.
func (d *Daemon) newServer() *server {
	server := newServer(d.mode.requireTLS(d.front, d.cfg.Security.PlainLoopback, d.refusals), judged{d.certificates, d.removed}, d.refusals, d.log)
	if limit := d.cfg.requestLimit; limit > 0 {
		server.http.ReadTimeout, server.http.WriteTimeout = limit, limit
	}
	if limit := d.cfg.headerLimit; limit > 0 {
		server.http.ReadHeaderTimeout = limit
	}
	d.metrics.gauge("netmaster_http_connections", "Open connections.", func() float64 { return float64(server.conn.count()) })
	return server
}

// startFollowerTasks starts the tasks that run whether or not a netmaster leads: the member of the store and
// its space, the mode of the cluster, removed netmasters, certificates, and the gate.
func (d *Daemon) startFollowerTasks(ctx context.Context, tasks *sync.WaitGroup) {
	tasks.Go(func() { d.member.Run(ctx) })
	tasks.Go(func() { d.join(ctx) })
	tasks.Go(func() { d.followAddresses(ctx) })
	tasks.Go(func() { d.keepUp(ctx) })
	tasks.Go(func() { d.space.Run(ctx) })
	tasks.Go(func() { d.mode.Run(ctx, d.db) })
	tasks.Go(func() { d.removed.Run(ctx, d.db) })
	tasks.Go(func() { d.certificates.Run(ctx, d.cluster) })
	tasks.Go(func() { d.certificates.own.Run(ctx, d.cfg.Security.Reread) })
	tasks.Go(func() { d.gate.Run(ctx) })
	tasks.Go(func() { d.front.askLeader(ctx) })
}

// sweep removes temporary files of earlier runs that were killed while they wrote a small file, of the CAs or
// beside the embedded store. Errors do not prevent the start.
func (d *Daemon) sweep(started time.Time) {
	var dirs []string
	if d.cfg.Security.Dir != "" {
		dirs = append(dirs, d.cfg.Security.Dir)
	}
	if d.cfg.Embedded != nil {
		dirs = append(dirs, d.cfg.Embedded.Dir)
	}
	if err := durable.SweepOld(started, dirs...); err != nil {
		d.log.WithError(err).Warn("what interrupted writers of files left stays there")
	}
}

// loop stands for election again and again until ctx ends. Meanwhile it caches the state, so that a term begins
// with it at once; streams end with serving, so that they do not delay the shutdown. It gives up if the cluster
// cannot be founded as configured.
func (d *Daemon) loop(ctx, serving context.Context) error {
	campaign := objdb.CampaignConfig{Lock: mastercfg.LeaderLock, Value: d.cfg.Control, TTL: d.cfg.LeaderTTL}
	for ctx.Err() == nil {
		if !d.mayLead(ctx) || !d.upToDate(ctx) {
			retry.Pause(ctx, standBack)
			continue
		}
		standby := master.Follow(ctx, d.db)
		term, err := d.db.Campaign(ctx, campaign)
		if err != nil {
			standby.Stop()
			if ctx.Err() == nil {
				d.log.WithError(err).Error("campaign failed, this netmaster will not lead")
			}
			return nil
		}
		err = d.lead(ctx, serving, term, standby)
		standby.Stop() // if the term ended before it was used
		if errors.As(err, new(StoreExposed)) {
			return err
		}
		if err != nil {
			d.log.WithError(err).Warn("term ended")
			retry.Pause(ctx, standBack)
		}
	}
	return nil
}

// standBack is how long a netmaster whose term failed, or that may not lead, does not stand for election.
const standBack = time.Second

// registered returns the present registrations of this netmaster, by which others find it.
func (d *Daemon) registered() []objdb.Service {
	host, portText, _ := net.SplitHostPort(d.cfg.Control)
	port, _ := strconv.Atoi(portText)
	role := "follower"
	if d.front.leading() != nil {
		role = "leader"
	}
	return []objdb.Service{{
		ServiceName: mastercfg.MasterService, Role: role, Version: buildinfo.Get().Version,
		TTL: int(serviceTTL / time.Second), HostAddr: host, Port: port, Ports: d.otherPorts(), Hostname: d.cfg.Security.Name, Addresses: d.cfg.addresses(),
		Authorities: d.member.registeredAuthorities(), Keyring: d.keyring.State(), Seals: d.cfg.Security.Store && d.keyring != nil, Opens: d.values != nil,
	}}
}

// announce updates the registration.
func (d *Daemon) announce() {
	d.announcing.Lock()
	defer d.announcing.Unlock()
	d.service.Update(d.registered()...)
}

// notify notifies systemd, where there is one.
func (d *Daemon) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		d.log.WithError(err).Warn("systemd notification")
	}
}
