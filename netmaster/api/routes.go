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
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/utils/fault"
)

// methods are the answers of one path.
type methods map[string]answer

// route is a path with its methods, and the area of rights that it is in. One without
// an area is refused to everybody in a cluster that asks for rights.
type route struct {
	path    string
	area    rights.Area
	methods methods
}

// served is a route as it is served.
type served struct {
	api *API
	route
	closed bool // it is of the account routes
}

// agentPaths are what agents are asked for operators.
const agentPaths = "readyz|inspect/driver|inspect/drops|inspect/bgp|inspect/nameserver|inspect/tunnels"

// MetricsPath is where every netmaster shows its own metrics. Here it is only asked whether
// the caller may see them.
const MetricsPath = "/metrics"

func mayMeasure(*http.Request) (reply, error) { return reply{code: http.StatusNoContent}, nil }

// inspectRoot is where objects are found with their run-time view.
const inspectRoot = "/api/v1/inspect/"

// table is all routes, the more special before the more general. Each is served with and
// without a trailing slash.
func (a *API) table() []route {
	return []route{
		{ApplyPath, rights.Known, methods{http.MethodPost: a.applyAll}},
		{CountersPath + "{key}", rights.RunTime, methods{http.MethodGet: a.counters}},
		{VerdictPath, rights.Known, methods{http.MethodGet: a.verdict}},
		{TracePath, rights.Known, methods{http.MethodGet: a.trace}},
		{"/api/v1/status", rights.Known, methods{http.MethodGet: a.status}},
		{"/api/v1/openapi.json", rights.Known, methods{http.MethodGet: openapi}},

		{"/api/v1/{segment}", rights.OfKind, methods{http.MethodGet: a.list}},
		{"/api/v1/{segment}/{key}", rights.OfKind, methods{http.MethodGet: a.get, http.MethodPost: a.upsert, http.MethodPut: a.upsert, http.MethodDelete: a.remove}},
		{inspectRoot + "{segment:globals}/{key}", rights.Known, methods{http.MethodGet: a.inspect}},
		{inspectRoot + "{segment:" + contivmodel.EndpointSegment + "}/{key}", rights.Known, methods{http.MethodGet: a.inspect}},
		{inspectRoot + "{segment}/{key}", rights.OfKind, methods{http.MethodGet: a.inspect}},

		{mastercfg.AllocAddressPath, rights.Agents, methods{http.MethodPost: plugin(a.allocAddress)}},
		{mastercfg.ReleaseAddressPath, rights.Agents, methods{http.MethodPost: plugin(a.releaseAddress)}},
		{mastercfg.CreateEndpointPath, rights.Agents, methods{http.MethodPost: plugin(a.createEndpoint)}},
		{mastercfg.DeleteEndpointPath, rights.Agents, methods{http.MethodPost: plugin(a.deleteEndpoint)}},
		{mastercfg.UpdateEndpointPath, rights.Agents, methods{http.MethodPost: plugin(a.updateEndpoint)}},

		{mastercfg.AuthorityPath, rights.Public, methods{http.MethodGet: a.authority}},
		{mastercfg.JoinPath, rights.Public, methods{http.MethodPost: notOpen(plugin(a.join))}}, // a token is shown
		{mastercfg.RenewPath, rights.Public, methods{http.MethodPost: plugin(a.renew)}},        // a certificate that may have expired
		{mastercfg.AuthoritiesPath, rights.Public, methods{http.MethodGet: a.mastersOnly("the keys of the authorities", a.handOver)}},
		{mastercfg.StoreMembersPath, rights.Public, methods{http.MethodPost: a.mastersOnly("a member of the store", plugin(a.addMember))}},
		{mastercfg.RotatePath, rights.Access, methods{http.MethodPost: plugin(a.rotate)}},
		{mastercfg.RotateKeysPath, rights.Access, methods{http.MethodPost: plugin(a.rotateKeys)}},
		{mastercfg.JoinTokensPath, rights.Access, methods{http.MethodGet: notOpen(a.joinTokens), http.MethodPost: notOpen(plugin(a.createJoinToken))}},
		{mastercfg.JoinTokensPath + "/{id}", rights.Access, methods{http.MethodDelete: notOpen(a.removeJoinToken)}},
		{mastercfg.NodesPath, rights.Operations, methods{http.MethodGet: a.joined(mastercfg.NodePrefix)}},
		{mastercfg.NodesPath + "/{host}", rights.Access, methods{http.MethodDelete: a.removeJoined("node", mastercfg.NodePrefix)}},
		{mastercfg.NodesPath + "/{host}/rekey", rights.Access, methods{http.MethodPost: a.rekey("node", mastercfg.NodePrefix)}},
		{mastercfg.NodesPath + "/{host}/agent/{what:" + agentPaths + "}", rights.Operations, methods{http.MethodGet: a.agent}},
		{mastercfg.NodesPath + "/{host}/agent/{what:metrics}", rights.Measured, methods{http.MethodGet: a.agent}},
		{mastercfg.MastersPath, rights.Operations, methods{http.MethodGet: a.joined(mastercfg.MasterPrefix)}},
		{mastercfg.MastersPath + "/{host}", rights.Access, methods{http.MethodDelete: a.removeJoined("netmaster", mastercfg.MasterPrefix)}},
		{mastercfg.MastersPath + "/{host}/rekey", rights.Access, methods{http.MethodPost: a.rekey("netmaster", mastercfg.MasterPrefix)}},

		{"/version", rights.Public, methods{http.MethodGet: version}},
		{MetricsPath, rights.Measured, methods{http.MethodGet: mayMeasure}},
		{"/info", rights.Operations, methods{http.MethodGet: a.info}},
		{"/services", rights.Known, methods{http.MethodGet: a.services}},
		{"/service/{id}", rights.Known, methods{http.MethodGet: a.service}},
		{"/debug/ofnet", rights.Operations, methods{http.MethodGet: a.ofnet}},

		{"/debug/epcleanup/tenant/{tenant}/{category:net|group|ep}/{id}", rights.RunTime, methods{http.MethodDelete: a.cleanUp}},
	}
}

// routes builds the router of the table.
func (a *API) routes() http.Handler {
	router := mux.NewRouter()
	router.NotFoundHandler = http.HandlerFunc(noRoute)
	for _, entry := range a.accountRoutes() {
		router.Handle(entry.path+"{slash:/?}", served{a, entry, true})
	}
	for _, entry := range append(a.securityRoutes(), a.table()...) {
		route := router.Handle(entry.path+"{slash:/?}", served{a, entry, false})
		if at := strings.Index(entry.path, "{segment}"); at >= 0 {
			route.MatcherFunc(knownSegment(entry.path[:at]))
		}
	}
	return cleanly(router)
}

// cleanly sends a change whose path is not clean, such as "//api/v1/...", to
// where it belongs with a status that keeps method and body. The router's own
// redirect would turn it into a read.
func cleanly(router http.Handler) http.Handler {
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

// noRoute tells only those whom it knows what there is.
func noRoute(w http.ResponseWriter, r *http.Request) {
	if q := askingOf(r.Context()); q != nil && q.mode == mastercfg.SecurityEnforced && q.who.Kind == identity.Nobody {
		WriteError(w, r, denial{error: fault.New(fault.Denied, "nobody says who is asking"), code: http.StatusUnauthorized})
		return
	}
	WriteStatus(w, r, http.StatusNotFound, fault.New(fault.NotFound, "404 page not found"))
}

// knownSegment lets a path whose segment, below a root, is no collection be not found.
func knownSegment(root string) mux.MatcherFunc {
	return func(r *http.Request, _ *mux.RouteMatch) bool {
		segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, root), "/")
		_, known := contivmodel.KindBySegment(segment)
		return known
	}
}

// ServeHTTP implements http.Handler.
func (s served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.closed && askingOf(r.Context()) == nil {
		noRoute(w, r)
		return
	}
	var err error
	if s.closed {
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
	handler, ok := s.methods[method]
	if !ok {
		w.Header().Set("Allow", s.methods.allow())
		WriteStatus(w, r, http.StatusMethodNotAllowed, fault.New(fault.Unsupported, "method %s not allowed", r.Method))
		return
	}
	if err := s.api.begin(r); err != nil {
		s.refuse(w, r, err)
		return
	}
	reply, err := handler(r)
	if err != nil {
		err = s.api.judged(r, err)
	} else {
		err = s.api.send(w, r, reply)
	}
	if err != nil {
		s.refuse(w, r, err)
	}
}

// noteFailure has the log tell of an error that is no fault of who asked.
func (a *API) noteFailure(r *http.Request, err error) {
	if fault.Is(err, fault.Internal) && a.failed.isNews(err, a.config.Now()) {
		a.config.Log.WithError(err).WithFields(logrus.Fields{"requestId": requestID(r), "method": r.Method, "path": r.URL.Path}).Error("a request failed")
	}
}

// refuse answers with an error; the account routes as the original's proxy did.
func (s served) refuse(w http.ResponseWriter, r *http.Request, err error) {
	s.api.noteFailure(r, err)
	_, isDenial := denied(err)
	if s.closed && !isDenial && !WantsProblem(r) {
		retryAfter(w, err)
		writeProxyError(w, codeOf(err), err.Error())
		return
	}
	WriteError(w, r, err)
}

// admit refuses who may not use the route, and notes what he needs for what follows.
func (s served) admit(r *http.Request) error {
	q := askingOf(r.Context())
	if q == nil {
		return nil
	}
	q.need, q.routed = s.need(r), true
	q.request = r.Method + " " + s.named(r)
	if err := s.api.inTurn(r.Context(), q); err != nil {
		return err
	}
	err := s.api.ledger.View(q.still)
	if err == nil {
		s.api.noteUse(q)
	}
	return err
}

// need is what a request to the route needs.
func (r route) need(asked *http.Request) need {
	verb := rights.Change
	if asked.Method == http.MethodGet || asked.Method == http.MethodHead {
		verb = rights.Read
	}
	vars := mux.Vars(asked)
	switch kind, _ := contivmodel.KindBySegment(vars["segment"]); r.area {
	case rights.OfKind:
		return needOf(verb, kind, vars["key"])
	case rights.RunTime:
		tenant, _, _ := strings.Cut(vars["tenant"]+vars["key"], ":")
		return need{verb, r.area, tenant}
	}
	return need{verb: verb, area: r.area}
}

// named is the path of the route, with the collection that a request is about.
func (r route) named(asked *http.Request) string {
	return strings.Replace(r.path, "{segment}", mux.Vars(asked)["segment"], 1)
}

// allow lists the methods served.
func (m methods) allow() string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	if slices.Contains(names, http.MethodGet) {
		names = append(names, http.MethodHead)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// kindOf is the kind a request is about; knownSegment has checked that there is one.
func kindOf(r *http.Request) (contivmodel.Kind, error) {
	segment := mux.Vars(r)["segment"]
	kind, ok := contivmodel.KindBySegment(segment)
	if !ok {
		return kind, fault.New(fault.NotFound, "%s: no such collection", segment)
	}
	return kind, nil
}
