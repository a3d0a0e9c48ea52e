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

	"github.com/contiv/netplugin/contivmodel/apidoc"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/buildinfo"
)

// status is how the cluster is doing, as its leader sees it.
type status struct {
	Leader   string         `json:"leader"`
	Epoch    int64          `json:"epoch"`
	Revision int64          `json:"revision"`
	Version  buildinfo.Info `json:"version"`
	Masters  []masterStatus `json:"masters"`
	Nodes    []*nodeStatus  `json:"nodes"`
	Store    storeStatus    `json:"store"`
	Security string         `json:"security"` // how far the cluster is closed

	Services   *servicesStatus   `json:"services,omitempty"`   // if there are any
	Kubernetes *kubernetesStatus `json:"kubernetes,omitempty"` // where it starts containers
}

type masterStatus struct {
	Address string `json:"address"`
	Role    string `json:"role"`
	Version string `json:"version"`
}

// nodeStatus is a host that has an agent or endpoints.
type nodeStatus struct {
	Host       string `json:"host"`
	Address    string `json:"address"`
	VTEP       string `json:"vtep"`
	Version    string `json:"version"` // of the agent
	Endpoints  int    `json:"endpoints"`
	Registered bool   `json:"registered"`         // its agent is alive
	Joined     bool   `json:"joined,omitempty"`   // it is asked over TLS, by netmasters only
	MustJoin   bool   `json:"mustJoin,omitempty"` // it cannot renew its certificate
}

type storeStatus struct {
	Endpoints []string `json:"endpoints"`
	Healthy   bool     `json:"healthy"` // a quorum answers
}

// storePatience is how long the store may take to show that it is healthy.
const storePatience = 2 * time.Second

// status answers even while the store does not: then without what only the
// store knows.
func (a *API) status(r *http.Request) (reply, error) {
	s := status{
		Leader: a.config.Self, Epoch: a.config.Epoch, Version: buildinfo.Get(), Masters: []masterStatus{},
		Store: storeStatus{Endpoints: a.store.Endpoints()},
	}
	ctx, cancel := context.WithTimeout(r.Context(), storePatience)
	defer cancel()
	s.Store.Healthy = a.store.Ping(ctx) == nil
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
		s.Masters = append(s.Masters, masterStatus{net.JoinHostPort(m.HostAddr, strconv.Itoa(m.Port)), m.Role, m.Version})
	}
	slices.SortFunc(s.Masters, func(a, b masterStatus) int { return cmp.Compare(a.Address, b.Address) })
	q, whole := askingOf(r.Context()), false // who runs no cluster is told how it is, not what it is made of
	err := a.ledger.View(func(reader ledger.Reader) error {
		sees, err := q.sees(reader)
		if err != nil {
			return err
		}
		mode, err := access.ModeOf(reader)
		if err != nil {
			return err
		}
		s.Revision, s.Security = reader.Newest(), string(mode)
		joined, err := ledger.ReadAll[mastercfg.Joined](reader, mastercfg.NodePrefix)
		if err != nil {
			return err
		}
		s.Nodes = nodeStates(registered, master.EndpointsPerHost(reader), slices.DeleteFunc(joined, func(n mastercfg.Joined) bool { return !a.mustJoin(n) }))
		s.Services, err = servicesOf(reader, sees)
		whole = q.may(reader, need{verb: rights.Read, area: rights.Operations})
		return err
	})
	if err == nil && !whole {
		s.Masters, s.Nodes, s.Store.Endpoints = []masterStatus{}, []*nodeStatus{}, []string{}
		return reply{body: s}, nil
	}
	if err == nil {
		s.Kubernetes, err = a.kubernetes(r.Context())
	}
	return reply{body: s}, err
}

// nodeStates puts together what is known of each host, sorted by name. out are those that have to
// join anew.
func nodeStates(registered map[string][]objdb.Service, endpoints map[string]int, out []mastercfg.Joined) []*nodeStatus {
	byHost := map[string]*nodeStatus{}
	of := func(host string) *nodeStatus {
		if byHost[host] == nil {
			byHost[host] = &nodeStatus{Host: host}
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
		n.Address, n.Version, n.Registered, n.Joined = s.HostAddr, s.Version, true, s.Authorities != ""
	}
	for _, s := range registered[mastercfg.AgentVTEPService] {
		of(s.Hostname).VTEP, of(s.Hostname).Registered = s.HostAddr, true
	}
	all := make([]*nodeStatus, 0, len(byHost))
	for _, n := range byHost {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *nodeStatus) int { return cmp.Compare(a.Host, b.Host) })
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

// openapi answers with the description of these routes.
func openapi(*http.Request) (reply, error) {
	document, err := openAPI()
	return reply{body: document}, err
}
