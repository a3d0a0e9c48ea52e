// Package api is what netmaster serves while it leads: the REST routes of the
// model, the plugin routes agents call, /version and /info. The table of routes is in routes.go.
//
// What requests, answers and errors look like, whatever they are about, is said in package rest. Package auth authenticates and
// authorizes the requests of all routes. The routes about accounts are those of package logins; those about nodes and netmasters
// that join, and about certificates and keys of the cluster, are those of package membership.
//
// A request to change something (crud.go) is decoded and validated, which gives
// an intent, and committed: one plan, one transaction of the ledger. The plan is
// a function of the object's type (package objects). Nothing happens outside
// the transaction, so a refused or interrupted request leaves no trace.
//
// Requests to read are answered from the ledger's snapshot and never wait for
// writers; a long answer is made one object at a time (send.go). Several changes
// at once are one plan (apply.go). Clients that follow changes read a stream
// of them (watch.go). What only nodes know, their agents are asked for (nodes.go).
package api

import (
	"context"
	"crypto/tls"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/api/membership"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/api/spool"
	"github.com/contiv/netplugin/netmaster/audit"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/logging"
)

// Store reads what others write: the run-time records of agents, the registry, the lock.
type Store interface {
	Get(ctx context.Context, key string) (objdb.KV, error)
	List(ctx context.Context, prefix string) ([]objdb.KV, int64, error)
	Services(ctx context.Context, name string) ([]objdb.Service, error)
	Holder(ctx context.Context, lock string) (string, error)
	Ping(ctx context.Context) error
	Endpoints() []string
	Learners(ctx context.Context) ([]string, error)
	ExposedURLs(ctx context.Context) ([]string, error)
}

// Config is what the API needs to know of the daemon.
type Config struct {
	membership.Config // who belongs to the cluster

	ClusterMode string                       // docker, kubernetes, swarm-mode, cni, test
	Defaults    contivmodel.Global           // what the global object gets where a request leaves a mode open
	Self        string                       // control address of this netmaster, ip:port
	Epoch       int64                        // of the term
	AgentPort   int                          // where agents answer questions; 0: ports.Agent
	Bookmarks   time.Duration                // longest silence of a watch; 0: 30 s
	Found       func() error                 // makes authorities, for a cluster that has none; nil: it cannot get any
	Changed     func(mastercfg.SecurityMode) // is told the mode of security at each change; nil: nobody is
	Now         func() time.Time             // of certificates, tokens and sessions; nil: time.Now
	Audit       *audit.Log                   // who has changed what, in clusters that ask; nil: nothing is written down
	ClientRate  rate.Limit                   // requests a second of one identity, in clusters that ask; 0: auth.ClientRate, rate.Inf: any number
	HashCost    accounts.Cost                // of passwords; zero: accounts.DefaultCost
	HashWorkers *accounts.Workers            // that hash them; nil: this process does
	Foreseen    *auth.Foreseen               // what this netmaster has counted in all its terms; nil: it begins anew
	// OtherReports asks the other netmasters what they have counted, and tells the addresses of those that do not say; nil: there are none.
	OtherReports func(context.Context) (others []contivmodel.SecurityReport, silent []string, err error)
	Keyring      *keyring.Keyring // of secrets in the store; nil: none are kept
	Values       func() string    // how the store keeps values (SecurityStatus); nil: as they are
	Trusted      func() error     // says why the term is over; nil: it never is
	StoreFull    func() error     // says why nothing can be added to the store; nil: it does not tell
	// StoreMissing are the members of the store that do not answer, or, of one that netmasters do not embed, the endpoints; nil: nobody knows.
	StoreMissing func(context.Context) ([]string, error)
	// NodeTLS is how the agent of a host is asked that has joined with the key of a hash; nil, or none returned: it is not.
	NodeTLS func(host, key string) *tls.Config
	Log     *logrus.Entry
}

// API serves the routes. Make one per term: it holds the term's ledger.
type API struct {
	ledger   auth.Ledger
	store    Store
	config   Config
	nodes    nodes
	tallies  singleflight.Group      // of what all nodes have counted, by what was asked
	searches ratelimit.Semaphore     // one at a time
	types    map[string]objects.Type // of objects, by name
	objects  *objects.Config
	router   http.Handler
	answers  *spool.Budget
	entrance *auth.Entrance
	members  *membership.Members
	logins   *logins.Logins
	cooldown *master.Cooldown

	failed logging.Trouble // the last request that netmaster is to blame for

	feed     Feed          // of the model's objects
	ended    chan struct{} // closed when watches have to end
	watching atomic.Int64  // how many there are

	following atomic.Pointer[func(context.Context) Following] // Kubernetes; nil: nobody does
	addresses atomic.Pointer[func(PodAddress)]                // who is told of pods without an address; nil: nobody
	// policies tells of NetworkPolicies; nil: there are none
	policies atomic.Pointer[func(ctx context.Context, namespace, name string) (NetworkPolicy, error)]
}

// New makes the API of a term. It answers at once; watches need Run, which
// fills the feed of the model's objects.
func New(ledger auth.Ledger, store Store, feed Feed, config Config) *API {
	if config.Log == nil {
		config.Log = logrus.WithField("component", "api")
	}
	if config.Trusted == nil {
		config.Trusted = func() error { return nil }
	}
	if config.Bookmarks == 0 {
		config.Bookmarks = bookmarkEvery
	}
	if config.HashCost == (accounts.Cost{}) {
		config.HashCost = accounts.DefaultCost
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Foreseen == nil {
		config.Foreseen = auth.NewForeseen(config.Now().UTC())
	}
	a := &API{
		ledger: auth.Guard(ledger), store: store, config: config, nodes: newNodes(config, ledger.View), searches: make(ratelimit.Semaphore, 1), types: objects.Types(),
		objects: &objects.Config{ClusterMode: config.ClusterMode, Defaults: config.Defaults, Keyring: config.Keyring, Log: config.Log},
		answers: spool.NewBudget(answersTotal, answersOfOne), cooldown: master.NewCooldown(time.Now),
		entrance: auth.New(auth.Config{View: ledger.View, Now: config.Now, Audit: config.Audit, Foreseen: config.Foreseen, Rate: config.ClientRate}),
		feed:     feed, ended: make(chan struct{}),
	}
	a.members = membership.New(config.Config, membership.Term{
		Ledger: a.ledger, Services: store.Services, SealPlain: a.objects.SealPlain, Now: config.Now, Keyring: config.Keyring, Log: config.Log,
	})
	a.logins = logins.New(logins.Config{
		Ledger: a.ledger, Now: config.Now, HashCost: config.HashCost, HashWorkers: config.HashWorkers, Keyring: config.Keyring, Log: config.Log, Certify: a.members.CertifyUser,
	})
	a.router = a.routes()
	return a
}

// Cooldown is what the term remembers of addresses of pods.
func (a *API) Cooldown() *master.Cooldown { return a.cooldown }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.config.Log.Logger.IsLevelEnabled(logrus.DebugLevel) {
		a.config.Log.WithFields(logrus.Fields{"requestId": rest.RequestID(r), "method": r.Method, "path": r.URL.Path, "from": r.RemoteAddr}).Debug("request")
	}
	asked, err := a.entrance.Enter(r)
	if err != nil {
		a.noteFailure(r, err)
		rest.WriteError(w, r, err)
		return
	}
	w, done := a.entrance.Noting(w, asked)
	defer done()
	a.router.ServeHTTP(w, asked)
}
