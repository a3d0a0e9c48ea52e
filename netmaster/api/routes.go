package api

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gorilla/mux"
	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/utils/fault"
)

// served is a route with its API.
type served struct {
	api *API
	rest.Route
	account bool // one of the account routes: they exist in a closed cluster only
}

// agentPaths are the agents' routes that operators can use through netmaster.
const agentPaths = "readyz|inspect/driver|inspect/drops|inspect/bgp|inspect/nameserver|inspect/tunnels"

// MetricsPath is where every netmaster serves its own metrics.
// This route only checks whether the caller may read them.
const MetricsPath = "/metrics"

func mayMeasure(*http.Request) (rest.Reply, error) {
	return rest.Reply{Code: http.StatusNoContent}, nil
}

// inspectRoot is the root of inspections.
const inspectRoot = "/api/v1/inspect/"

// table returns all routes, special ones before general ones. Each is served with and without a trailing slash.
func (a *API) table() []rest.Route {
	return []rest.Route{
		rest.Trying(rest.ApplyPath, rights.Known, rest.Methods{http.MethodPost: a.applyAll}),
		rest.At(countersPath+"{key}", rights.RunTime, rest.Methods{http.MethodGet: a.counters}),
		rest.At(verdictPath, rights.Known, rest.Methods{http.MethodGet: a.long(a.verdict)}),
		rest.At(tracePath, rights.Known, rest.Methods{http.MethodGet: a.long(a.trace)}),
		rest.At("/api/v1/status", rights.Known, rest.Methods{http.MethodGet: a.status}),
		rest.At("/api/v1/openapi.json", rights.Known, rest.Methods{http.MethodGet: openapi}),

		rest.At("/api/v1/{segment}", rights.OfKind, rest.Methods{http.MethodGet: a.list}),
		rest.Trying("/api/v1/{segment}/{key}", rights.OfKind, rest.Methods{http.MethodGet: a.get, http.MethodPost: a.upsert, http.MethodPut: a.upsert, http.MethodDelete: a.remove}),
		rest.At(inspectRoot+"{segment:globals}/{key}", rights.Known, rest.Methods{http.MethodGet: a.inspect}),
		rest.At(inspectRoot+"{segment:"+contivmodel.EndpointSegment+"}/{key}", rights.Known, rest.Methods{http.MethodGet: a.long(a.inspectEndpoint)}),
		rest.At(inspectRoot+contivmodel.NetworkPolicySegment+"/{key}", rights.Known, rest.Methods{http.MethodGet: a.long(a.inspectNetworkPolicy)}),
		rest.At(inspectRoot+"{segment}/{key}", rights.OfKind, rest.Methods{http.MethodGet: a.inspect}),

		rest.At(mastercfg.AllocAddressPath, rights.Agents, rest.Methods{http.MethodPost: rest.WithBody(a.allocAddress)}),
		rest.At(mastercfg.ReleaseAddressPath, rights.Agents, rest.Methods{http.MethodPost: rest.WithBody(a.releaseAddress)}),
		rest.At(mastercfg.CreateEndpointPath, rights.Agents, rest.Methods{http.MethodPost: rest.WithBody(a.createEndpoint)}),
		rest.At(mastercfg.DeleteEndpointPath, rights.Agents, rest.Methods{http.MethodPost: rest.WithBody(a.deleteEndpoint)}),
		rest.At(mastercfg.UpdateEndpointPath, rights.Agents, rest.Methods{http.MethodPost: rest.WithBody(a.updateEndpoint)}),

		rest.At(mastercfg.NodesPath+"/{host}/agent/{what:"+agentPaths+"}", rights.Operations, rest.Methods{http.MethodGet: a.agent}),
		rest.At(mastercfg.NodesPath+"/{host}/agent/{what:metrics}", rights.Measured, rest.Methods{http.MethodGet: a.agent}),

		rest.At("/version", rights.Public, rest.Methods{http.MethodGet: version}),
		rest.At(MetricsPath, rights.Measured, rest.Methods{http.MethodGet: mayMeasure}),
		rest.At("/info", rights.Operations, rest.Methods{http.MethodGet: a.info}),
		rest.At("/services", rights.Known, rest.Methods{http.MethodGet: a.services}),
		rest.At("/service/{id}", rights.Known, rest.Methods{http.MethodGet: a.service}),
		rest.At("/debug/ofnet", rights.Operations, rest.Methods{http.MethodGet: a.ofnet}),

		rest.At("/debug/epcleanup/tenant/{tenant}/{category:net|group|ep}/{id}", rights.RunTime, rest.Methods{http.MethodDelete: a.long(a.cleanUp)}),
	}
}

// allRoutes returns all routes except those of accounts.
func (a *API) allRoutes() []rest.Route {
	return slices.Concat(a.securityRoutes(), a.table(), a.members.Routes())
}

// routes returns the router of the table.
func (a *API) routes() http.Handler {
	router := mux.NewRouter()
	router.NotFoundHandler = http.HandlerFunc(noRoute)
	for _, entry := range a.logins.Routes() {
		router.Handle(entry.Path+"{slash:/?}", served{api: a, Route: entry, account: true})
	}
	for _, entry := range a.allRoutes() {
		route := router.Handle(entry.Path+"{slash:/?}", served{api: a, Route: entry})
		if at := strings.Index(entry.Path, "{segment}"); at >= 0 {
			route.MatcherFunc(knownSegment(entry.Path[:at]))
		}
	}
	return redirectUnclean(router)
}

// redirectUnclean redirects a change whose path is not clean, such as "//api/v1/...", with a status that keeps method and body.
// The router's own redirect would turn it into a GET.
func redirectUnclean(router http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		clean := path.Clean(r.URL.Path)
		if isRead := r.Method == http.MethodGet || r.Method == http.MethodHead; isRead || clean == r.URL.Path || clean+"/" == r.URL.Path {
			router.ServeHTTP(w, r)
			return
		}
		to := url.URL{Path: clean, RawQuery: r.URL.RawQuery}
		http.Redirect(w, r, to.String(), http.StatusPermanentRedirect)
	})
}

// noRoute answers 404, but 401 to unauthenticated clients of an
// enforced cluster, so that they do not learn which routes exist.
func noRoute(w http.ResponseWriter, r *http.Request) {
	if caller := auth.CallerFrom(r.Context()); caller != nil && caller.Mode() == mastercfg.SecurityEnforced && caller.Who.Kind == identity.Nobody {
		rest.WriteError(w, r, rest.Denial{Cause: fault.New(fault.Denied, "nobody says who is asking"), Status: http.StatusUnauthorized})
		return
	}
	rest.WriteStatus(w, r, http.StatusNotFound, fault.New(fault.NotFound, "404 page not found"))
}

// knownSegment matches paths whose first segment below root is a collection; others are not found.
func knownSegment(root string) mux.MatcherFunc {
	return func(r *http.Request, _ *mux.RouteMatch) bool {
		segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, root), "/")
		_, known := contivmodel.KindBySegment(segment)
		return known
	}
}

// ServeHTTP implements http.Handler.
func (s served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.account && auth.CallerFrom(r.Context()) == nil {
		noRoute(w, r)
		return
	}
	var err error
	if s.account {
		err = Confidential(r)
	}
	if err == nil {
		err = s.admit(r)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // the server drops the body
	}
	handler, ok := s.Methods[method]
	if !ok {
		w.Header().Set("Allow", s.Methods.Allow())
		rest.WriteStatus(w, r, http.StatusMethodNotAllowed, fault.New(fault.Unsupported, "method %s not allowed", r.Method))
		return
	}
	err = s.CanBeTried(r)
	if err == nil {
		err = s.api.entrance.Begin(r)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	reply, err := handler(r)
	if err != nil {
		err = s.api.confirmLed(r, err)
	} else {
		err = s.api.send(w, r, reply)
	}
	if err != nil {
		s.refuse(w, r, err)
	}
}

// noteFailure logs internal errors.
func (a *API) noteFailure(r *http.Request, err error) {
	if fault.Is(err, fault.Internal) && a.failed.IsNews(err, a.config.Now()) {
		a.config.Log.WithError(err).WithFields(logrus.Fields{"requestId": rest.RequestID(r), "method": r.Method, "path": r.URL.Path}).Error("a request failed")
	}
}

// refuse answers an error; account routes in the format of the original's proxy.
func (s served) refuse(w http.ResponseWriter, r *http.Request, err error) {
	auth.CallerFrom(r.Context()).Failed(err)
	s.api.noteFailure(r, err)
	if s.account {
		rest.WriteErrorAsProxy(w, r, err)
		return
	}
	rest.WriteError(w, r, err)
}

// admit fails if the caller may not use the route, and records the required right for later checks.
func (s served) admit(r *http.Request) error {
	err := s.api.entrance.Admit(r.Context(), s.need(r), r.Method+" "+s.named(r))
	if caller := auth.CallerFrom(r.Context()); caller != nil && err == nil {
		s.api.logins.NoteUse(caller.Who)
	}
	return err
}

// need returns the right that a request to the route requires.
func (s served) need(asked *http.Request) auth.Need {
	verb := rights.Change
	if asked.Method == http.MethodGet || asked.Method == http.MethodHead {
		verb = rights.Read
	}
	vars := mux.Vars(asked)
	switch kind, _ := contivmodel.KindBySegment(vars["segment"]); s.Area {
	case rights.OfKind:
		return auth.NeedOf(verb, kind, vars["key"])
	case rights.RunTime:
		tenant, _, _ := strings.Cut(vars["tenant"]+vars["key"], ":")
		return auth.Need{Verb: verb, Area: s.Area, Tenant: tenant}
	}
	return auth.Need{Verb: verb, Area: s.Area}
}

// named returns the path of the route, with the collection of the request.
func (s served) named(asked *http.Request) string {
	return strings.Replace(s.Path, "{segment}", mux.Vars(asked)["segment"], 1)
}

// kindOf returns the kind of a request; knownSegment has checked that there is one.
func kindOf(r *http.Request) contivmodel.Kind {
	kind, _ := contivmodel.KindBySegment(mux.Vars(r)["segment"])
	return kind
}
