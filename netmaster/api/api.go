// Package api is the API that netmaster serves while it leads: the REST routes of the model, the plugin routes
// for agents, /version and /info. The table of routes is in routes.go.
//
// Package rest defines the common form of requests, answers and errors. Package auth authenticates and
// authorizes the requests of all routes. The routes of accounts are in package logins; those of joining nodes
// and netmasters, and of certificates and keys of the cluster, are in package membership.
//
// A request to change an object (crud.go) is decoded and validated, which yields an intent, and committed: one
// plan, one transaction of the ledger. The plan is a function of the object's type (package objects). Nothing
// happens outside the transaction, so a refused or interrupted request leaves no trace.
//
// Reads are answered from the ledger's snapshot and never wait for writers; a long answer is encoded one object
// at a time (send.go). Several changes in one request are one plan (apply.go). Clients can watch a collection
// as a stream of changes (watch.go). For what only nodes know, their agents are called (nodes.go).
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

// Store reads what other components write: the operational records of agents, the registry, the lock.
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

// Config configures the API.
type Config struct {
	membership.Config // members of the cluster

	ClusterMode string                       // docker, kubernetes, swarm-mode, cni, test
	Defaults    contivmodel.Global           // global object of a new cluster, as far as requests leave fields empty
	Self        string                       // control address of this netmaster, ip:port
	Epoch       int64                        // of the term
	AgentPort   int                          // port of the agents' REST servers; 0: ports.Agent
	Bookmarks   time.Duration                // longest silence of a watch; 0: 30 s
	Found       func() error                 // creates the CAs of a cluster without them; nil: not possible
	Changed     func(mastercfg.SecurityMode) // is called with each new security mode; may be nil
	Now         func() time.Time             // the time for certificates, tokens and sessions; nil: time.Now
	Audit       *audit.Log                   // audit log of a secured cluster; nil: none
	ClientRate  rate.Limit                   // requests per second of one identity in a secured cluster; 0: auth.ClientRate, rate.Inf: no limit
	HashCost    accounts.Cost                // cost of hashing passwords; zero: accounts.DefaultCost
	HashWorkers *accounts.Workers            // processes that hash passwords; nil: this process does
	Foreseen    *auth.Foreseen               // counts of this netmaster in all its terms, for the security report; nil: starts empty
	// OtherReports returns the reports of the other netmasters, and
	// the addresses of those that do not answer; nil: there are none.
	OtherReports func(context.Context) (others []contivmodel.SecurityReport, silent []string, err error)
	Keyring      *keyring.Keyring // encrypts secrets in the store; nil: there are no secrets
	Values       func() string    // how values are encrypted in the store (SecurityStatus); nil: they are not
	Trusted      func() error     // returns an error once the term is over; nil: it never is
	StoreFull    func() error     // returns an error if the store is full; nil: not known
	// StoreMissing returns the members of the store that do not answer, or its endpoints if netmasters do not embed it; nil: not known.
	StoreMissing func(context.Context) ([]string, error)
	// NodeTLS returns the TLS configuration for the agent of a host that has joined with the key of this hash;
	// nil, or a nil result: it is not called.
	NodeTLS func(host, key string) *tls.Config
	Log     *logrus.Entry
}

// API serves the routes for one term: it holds the term's ledger.
type API struct {
	ledger   auth.Ledger
	store    Store
	config   Config
	nodes    nodes
	tallies  singleflight.Group      // requests to all nodes for counters, by query
	searches ratelimit.Semaphore     // one at a time
	types    map[string]objects.Type // object types by name
	objects  *objects.Config
	router   http.Handler
	answers  *spool.Budget
	entrance *auth.Entrance
	members  *membership.Members
	logins   *logins.Logins
	cooldown *master.Cooldown

	failed logging.Trouble // the last internal error of a request

	feed     Feed          // changes of the model's objects
	ended    chan struct{} // closed when all watches have to end
	watching atomic.Int64  // number of watches

	following atomic.Pointer[func(context.Context) Following] // state of following Kubernetes; nil: not followed
	addresses atomic.Pointer[func(PodAddress)]                // is called for pods with and without an address; nil: none
	// policies returns where a NetworkPolicy is in force; nil: there are none.
	policies atomic.Pointer[func(ctx context.Context, namespace, name string) (NetworkPolicy, error)]
}

// New returns the API of a term. It serves requests at once;
// watches need Run, which fills the feed of the model's objects.
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
		ledger: auth.Guard(ledger), store: store, config: config, types: objects.Types(),
		nodes: newNodes(config, ledger.View), searches: make(ratelimit.Semaphore, 1),
		objects: &objects.Config{ClusterMode: config.ClusterMode, Defaults: config.Defaults, Keyring: config.Keyring, Log: config.Log},
		answers: spool.NewBudget(answersTotal, answersOfOne), cooldown: master.NewCooldown(time.Now),
		entrance: auth.New(auth.Config{View: ledger.View, Now: config.Now, Audit: config.Audit, Foreseen: config.Foreseen, Rate: config.ClientRate}),
		feed:     feed, ended: make(chan struct{}),
	}
	a.members = membership.New(config.Config, membership.Term{
		Ledger: a.ledger, Services: store.Services, SealPlain: a.objects.SealPlain, Now: config.Now, Keyring: config.Keyring, Log: config.Log,
	})
	a.logins = logins.New(logins.Config{
		Ledger: a.ledger, Now: config.Now, HashCost: config.HashCost, HashWorkers: config.HashWorkers,
		Keyring: config.Keyring, Log: config.Log, Certify: a.members.CertifyUser,
	})
	a.router = a.routes()
	return a
}

// Cooldown returns the term's memory of pod addresses.
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
