package daemon

import (
	"net/http"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/gate"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/hostaddr"
	"github.com/contiv/netplugin/utils/notify"
)

// New checks the configuration and prepares a netmaster. It connects to nothing and serves nothing before Run,
// which also closes what New has opened.
func New(cfg Config) (*Daemon, error) {
	cfg, err := cfg.completed()
	if err != nil {
		return nil, err
	}
	certificates, err := newCertificates(cfg.Security, cfg.Log)
	if err != nil {
		return nil, err
	}
	member := newMember(cfg.Embedded, certificates, cfg.Log)
	if cfg.Security.Store && cfg.Store.CertFile == "" && strings.HasPrefix(cfg.Store.Endpoints[0], "https:") {
		cfg.Store.TLS = member.dial
	}
	ring, kept := sealingOf(cfg.Security)
	if kept != nil {
		cfg.Store.Values = kept
	}
	db, err := objdb.Open(cfg.Store)
	if err != nil {
		return nil, err
	}
	member.db = db
	d := &Daemon{
		cfg: cfg, log: cfg.Log, db: db, keyring: ring, values: kept, metrics: newMetrics(), certificates: certificates, member: member, promoting: notify.New(),
		space: newKeeper(cfg, db, member), mode: newMode(cfg.Log), removed: &removals{},
		refusals: auth.NewEarlyRefusals(cfg.API.Audit), handshakes: newHandshakes(cfg.Log),
	}
	d.handshakes.removed = d.removed.has
	if kept != nil {
		kept.db, kept.record, kept.admit, kept.registered = db, d.record, d.space.Admit, func() string { return d.registered()[0].Key() }
	}
	d.cfg.API = d.apiConfig()
	d.toJoin.Store(cfg.Security.TokenFile != "" && certificates.noneOnDisk())
	d.gate = gate.New(gate.Config{
		DB: db, Verify: certificates.Verify, Open: d.keyring.Open, Audit: cfg.API.Audit,
		Log: cfg.Log.WithField("component", "gate"),
	})
	d.measure()
	d.front = d.newFront()
	return d, nil
}

// sealingOf returns the keyring for encrypted secrets and the encryption of all values; nil if there is none.
func sealingOf(security Security) (*keyring.Keyring, *values) {
	if security.Dir == "" {
		return nil, nil
	}
	ring := keyring.In(security.Dir)
	return ring, &values{Values: ring.Values(), wanted: security.EncryptValues, keyring: ring, turned: notify.New()}
}

// completed returns the configuration with its defaults.
func (cfg Config) completed() (Config, error) {
	if cfg.Log == nil {
		cfg.Log = logrus.WithField("component", "netmaster")
	}
	if cfg.ReconcileEvery == 0 {
		cfg.ReconcileEvery = 10 * time.Minute
	}
	if cfg.SweepEvery == 0 {
		cfg.SweepEvery = 30 * time.Second
	}
	if cfg.WarnEvery == 0 {
		cfg.WarnEvery = time.Hour
	}
	if cfg.addresses == nil {
		cfg.addresses = hostaddr.All
	}
	if cfg.addressesEvery == 0 {
		cfg.addressesEvery = 15 * time.Second
	}
	if cfg.Embedded != nil {
		embedded := *cfg.Embedded
		embedded.FoundingRefused = cfg.foundingRefusal()
		cfg.Embedded = &embedded
	}
	cfg.Security.Store = isSecure(cfg.Embedded)
	if cfg.Security.Store && cfg.Security.Dir == "" {
		return cfg, fault.New(fault.Invalid, "embedded store at %s: certificates need a directory of authorities", cfg.Embedded.PeerURL)
	}
	return cfg, nil
}

// apiConfig returns the configuration of a term's API, with the functions of this netmaster that it needs.
func (d *Daemon) apiConfig() api.Config {
	c, security := d.cfg.API, d.cfg.Security
	c.Self, c.Name, c.LeafLife = d.cfg.Control, security.Name, security.LeafLife
	c.Authorities, c.NodeTLS, c.Replace = d.certificates.authorities, d.certificates.node, d.certificates.replace
	c.Foreseen, c.OtherReports = auth.NewForeseen(time.Now().UTC()), d.otherReports
	c.Changed = d.mode.set // before the watch reports it
	c.StoreFull, c.StoreMissing = d.space.Admit, d.member.missing
	if d.cfg.Embedded == nil {
		c.StoreMissing = d.db.Silent
	}
	if security.Dir != "" {
		c.Found, c.Keyring, c.StoreClosed = d.certificates.makeAuthorities, d.keyring, security.Store
		c.Values = d.values.status
	}
	if security.Store {
		c.AddMember = d.addMember
	}
	return c
}

// measure registers the metrics that are read from the parts on each scrape.
func (d *Daemon) measure() {
	d.metrics.watch(d.space)
	d.metrics.gauge("netmaster_gate_connections", "Open connections of agents to the state.", func() float64 { return float64(d.gate.Connections()) })
	d.metrics.gauge("netmaster_security_open", "1 while clients need not authenticate.", func() float64 {
		if d.mode.current() == mastercfg.SecurityOpen {
			return 1
		}
		return 0
	})
	d.metrics.counter("netmaster_audit_lost_lines_total", "Lines that could not be written to the audit log; with --audit strict their changes were refused.", d.cfg.API.Audit.Lost)
	d.metrics.counter("netmaster_audit_uncopied_lines_total", "Lines of the audit log that no syslog server was sent.", d.cfg.API.Audit.Uncopied)
	d.metrics.registry.MustRegister(d.cfg.Metrics...)
}

// newFront makes the handler of all requests.
func (d *Daemon) newFront() *front {
	f := newFront(newProxy(d.member, d.cfg.Control, d.certificates, d.log), d.metrics, d.mode.current)
	f.reached, f.proxy.refusals, f.proxy.mode = d.member.isKnownToOthers, d.refusals, d.mode.current
	if d.cfg.Embedded == nil { // members of netmasters have no users
		f.mayWrite = d.mayWrite
	}
	f.own[reportPath] = http.HandlerFunc(d.ownReport)
	if d.cfg.Security.Debug {
		f.debug = debugging()
	}
	return f
}
