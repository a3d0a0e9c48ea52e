package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/apidoc"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/buildinfo"
)

// storePatience is how long the store may take to show that it is healthy.
const storePatience = 2 * time.Second

// status answers even while the store does not: then without the fields that need the store. Callers that are
// not operators see whether the cluster is well, but not its parts, which are not even looked up.
func (a *API) status(r *http.Request) (rest.Reply, error) {
	s := contivmodel.Status{
		Leader: a.config.Self, Epoch: a.config.Epoch, Version: buildinfo.Get(), Masters: []contivmodel.MasterStatus{}, Nodes: []contivmodel.NodeStatus{},
		Store: contivmodel.StoreStatus{Endpoints: []string{}},
	}
	ctx, cancel := context.WithTimeout(r.Context(), storePatience)
	defer cancel()
	s.Store.Healthy = a.store.Ping(ctx) == nil
	caller, whole := auth.CallerFrom(r.Context()), false
	err := a.ledger.View(func(reader ledger.Reader) error {
		sees, err := caller.Sees(reader)
		if err != nil {
			return err
		}
		mode, err := access.ModeOf(reader)
		if err != nil {
			return err
		}
		s.Revision, s.Security = reader.Newest(), string(mode)
		s.Services, err = servicesOf(reader, sees)
		whole = caller.May(reader, auth.Need{Verb: rights.Read, Area: rights.Operations})
		s.Partial = !whole
		return err
	})
	if err == nil && whole {
		err = a.partsOfCluster(ctx, a.missing(r.Context()), &s)
	}
	if err == nil && whole {
		s.Kubernetes, err = a.kubernetes(r.Context())
	}
	return rest.Reply{Body: s}, err
}

// partsOfCluster adds the netmasters, nodes and members of the store to a status.
func (a *API) partsOfCluster(ctx context.Context, missing func() []string, s *contivmodel.Status) error {
	s.Store.Endpoints = a.store.Endpoints()
	if learners, err := a.store.Learners(ctx); err == nil { // an external store may not have them
		s.Store.Learners = learners
	}
	registered := map[string][]objdb.Service{}
	for _, name := range []string{mastercfg.MasterService, mastercfg.AgentService, mastercfg.AgentVTEPService} {
		services, err := a.store.Services(ctx, name)
		if err != nil {
			s.Store.Healthy = false
			break
		}
		registered[name] = services
	}
	for _, m := range registered[mastercfg.MasterService] {
		// Registrations may be out of date for a moment. This netmaster leads, or it would not answer.
		of := contivmodel.MasterStatus{Address: net.JoinHostPort(m.HostAddr, strconv.Itoa(m.Port)), Role: "follower", Version: m.Version}
		if of.Address == s.Leader {
			of.Role = "leader"
		}
		s.Masters = append(s.Masters, of)
	}
	s.Store.Missing, s.Store.Full = missing(), a.storeFull()
	slices.SortFunc(s.Masters, func(a, b contivmodel.MasterStatus) int { return cmp.Compare(a.Address, b.Address) })
	return a.ledger.View(func(reader ledger.Reader) error {
		joined, err := ledger.ReadAll[mastercfg.Joined](reader, mastercfg.NodePrefix)
		if err != nil {
			return err
		}
		s.Nodes = nodeStates(registered, master.EndpointsPerHost(reader), slices.DeleteFunc(joined, func(n mastercfg.Joined) bool { return !a.members.MustJoin(n) }))
		return nil
	})
}

// missing starts a request for the members of the store that do not answer, and returns a function that waits
// for the result: a machine that is off takes the whole time limit, which the other parts of the status need as
// well. It has a time limit of its own: if the store has used up the request's, for example without a majority,
// members that do answer would be reported as missing.
func (a *API) missing(ctx context.Context) (names func() []string) {
	found := make(chan []string, 1)
	go func() {
		ctx, cancel := context.WithTimeout(ctx, storePatience)
		defer cancel()
		var names []string
		if a.config.StoreMissing != nil {
			names, _ = a.config.StoreMissing(ctx) // includes members that have not answered in time
		}
		found <- names
	}()
	return func() []string { return <-found }
}

// storeFull returns why nothing can be added to the store; empty if it can.
func (a *API) storeFull() string {
	if a.config.StoreFull == nil {
		return ""
	}
	if err := a.config.StoreFull(); err != nil {
		return err.Error()
	}
	return ""
}

// nodeStates returns the state of each host, sorted by name. out are the nodes that have to join again.
func nodeStates(registered map[string][]objdb.Service, endpoints map[string]int, out []mastercfg.Joined) []contivmodel.NodeStatus {
	byHost := map[string]*contivmodel.NodeStatus{}
	of := func(host string) *contivmodel.NodeStatus {
		if byHost[host] == nil {
			byHost[host] = &contivmodel.NodeStatus{Host: host}
		}
		return byHost[host]
	}
	for host, n := range endpoints {
		of(host).Endpoints = n
	}
	for _, n := range out {
		of(n.Host).MustJoin = true
	}
	for _, s := range registered[mastercfg.AgentService] {
		n := of(s.Hostname)
		n.Address, n.Port, n.Version, n.Registered, n.Joined = s.HostAddr, s.REST, s.Version, true, s.Authorities != ""
	}
	for _, s := range registered[mastercfg.AgentVTEPService] {
		of(s.Hostname).VTEP, of(s.Hostname).Registered = s.HostAddr, true
	}
	all := make([]contivmodel.NodeStatus, 0, len(byHost))
	for _, n := range byHost {
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b contivmodel.NodeStatus) int { return cmp.Compare(a.Host, b.Host) })
	return all
}

var openAPI = sync.OnceValues(func() (json.RawMessage, error) {
	document, err := apidoc.OpenAPI()
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, document)
	return compact.Bytes(), err
})

// openapi answers the OpenAPI document of these routes.
func openapi(*http.Request) (rest.Reply, error) {
	document, err := openAPI()
	return rest.Reply{Body: document}, err
}
