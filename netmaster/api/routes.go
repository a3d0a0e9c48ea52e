package api

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// methods are the answers of one path.
type methods map[string]answer

// served is a path with its methods.
type served struct {
	api     *API
	methods methods
}

// inspectRoot is where objects are found with their run-time view.
const inspectRoot = "/api/v1/inspect/"

// routes builds the table of paths. Each is served with and without a trailing slash.
func (a *API) routes() http.Handler {
	router := mux.NewRouter()
	router.NotFoundHandler = http.HandlerFunc(noRoute)
	for path, methods := range map[string]methods{
		"/api/v1/{segment}":             {http.MethodGet: a.list},
		"/api/v1/{segment}/{key}":       {http.MethodGet: a.get, http.MethodPost: a.upsert, http.MethodPut: a.upsert, http.MethodDelete: a.remove},
		inspectRoot + "{segment}/{key}": {http.MethodGet: a.inspect},

		ApplyPath:              {http.MethodPost: a.applyAll},
		CountersPath + "{key}": {http.MethodGet: a.counters},
		VerdictPath:            {http.MethodGet: a.verdict},
		"/api/v1/status":       {http.MethodGet: a.status},
		"/api/v1/openapi.json": {http.MethodGet: openapi},

		mastercfg.AllocAddressPath:   {http.MethodPost: plugin(a.allocAddress)},
		mastercfg.ReleaseAddressPath: {http.MethodPost: plugin(a.releaseAddress)},
		mastercfg.CreateEndpointPath: {http.MethodPost: plugin(a.createEndpoint)},
		mastercfg.DeleteEndpointPath: {http.MethodPost: plugin(a.deleteEndpoint)},
		mastercfg.UpdateEndpointPath: {http.MethodPost: plugin(a.updateEndpoint)},

		mastercfg.AuthorityPath:                 {http.MethodGet: a.authority},
		mastercfg.JoinPath:                      {http.MethodPost: plugin(a.join)},
		mastercfg.RenewPath:                     {http.MethodPost: plugin(a.renew)},
		mastercfg.JoinTokensPath:                {http.MethodGet: a.joinTokens, http.MethodPost: plugin(a.createJoinToken)},
		mastercfg.JoinTokensPath + "/{id}":      {http.MethodDelete: a.removeJoinToken},
		mastercfg.NodesPath:                     {http.MethodGet: a.joined(mastercfg.NodePrefix)},
		mastercfg.NodesPath + "/{host}":         {http.MethodDelete: a.removeJoined("node", mastercfg.NodePrefix)},
		mastercfg.NodesPath + "/{host}/rekey":   {http.MethodPost: a.rekey("node", mastercfg.NodePrefix)},
		mastercfg.MastersPath:                   {http.MethodGet: a.joined(mastercfg.MasterPrefix)},
		mastercfg.MastersPath + "/{host}":       {http.MethodDelete: a.removeJoined("netmaster", mastercfg.MasterPrefix)},
		mastercfg.MastersPath + "/{host}/rekey": {http.MethodPost: a.rekey("netmaster", mastercfg.MasterPrefix)},

		"/version":      {http.MethodGet: version},
		"/info":         {http.MethodGet: a.info},
		"/services":     {http.MethodGet: a.services},
		"/service/{id}": {http.MethodGet: a.service},
		"/debug/ofnet":  {http.MethodGet: a.ofnet},

		"/debug/epcleanup/tenant/{tenant}/{category:net|group|ep}/{id}": {http.MethodDelete: a.cleanUp},
	} {
		route := router.Handle(path+"{slash:/?}", served{a, methods})
		if strings.Contains(path, "{segment}") {
			route.MatcherFunc(knownSegment(path[:strings.Index(path, "{segment}")]))
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

func noRoute(w http.ResponseWriter, r *http.Request) {
	WriteStatus(w, r, http.StatusNotFound, fault.New(fault.NotFound, "404 page not found"))
}

// knownSegment lets a path whose segment, below a root, is no collection be not found.
func knownSegment(root string) mux.MatcherFunc {
	return func(r *http.Request, _ *mux.RouteMatch) bool {
		segment, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, root), "/")
		_, known := contivmodel.KindBySegment(segment)
		return known || root == inspectRoot && segment == contivmodel.EndpointSegment
	}
}

// ServeHTTP implements http.Handler.
func (s served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	reply, err := handler(r)
	if err != nil {
		WriteError(w, r, s.api.judged(r, err))
		return
	}
	s.api.send(w, r, reply)
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
