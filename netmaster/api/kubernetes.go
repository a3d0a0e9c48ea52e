package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Following is how well the leader follows Kubernetes.
type Following struct {
	Problem  string    // why it does not; empty: it does
	Waiting  int       // objects that have changed, and are not written down yet
	Behind   int       // seconds since the first of them has
	Troubles []Trouble // with objects that the state says nothing about
}

// Trouble is what an object of Kubernetes asks for and does not get.
type Trouble struct {
	Object  string `json:"object"` // kind and name: pod shop/web
	Reason  string `json:"reason"` // a word that programs know, as events have it
	Message string `json:"message"`
}

// kubernetesStatus is how Kubernetes is served.
type kubernetesStatus struct {
	Problem  string    `json:"problem"`
	Waiting  int       `json:"waiting"`
	Behind   int       `json:"behind"`
	Nodes    []string  `json:"nodes"`    // of Kubernetes
	Services int       `json:"services"` // with addresses
	Unserved []string  `json:"unserved"` // services that nobody is behind, by tenant
	Troubles []Trouble `json:"troubles"` // at most maxTroubles
	Untold   int       `json:"untold"`   // how many more there are
}

// maxTroubles is how many are told.
const maxTroubles = 50

// Follows has the status tell how well Kubernetes is followed.
func (a *API) Follows(following func(context.Context) Following) { a.following.Store(&following) }

// kubernetes is the status of Kubernetes; nil: there is none.
func (a *API) kubernetes(ctx context.Context) (*kubernetesStatus, error) {
	if a.config.ClusterMode != "kubernetes" {
		return nil, nil
	}
	now := Following{Problem: "netmaster does not follow an API server, see its log"}
	if following := a.following.Load(); following != nil {
		now = (*following)(ctx)
	}
	s := &kubernetesStatus{Problem: now.Problem, Waiting: now.Waiting, Behind: now.Behind, Nodes: []string{}, Unserved: []string{}, Troubles: []Trouble{}}
	err := a.ledger.View(func(r ledger.Reader) error {
		r.Range(mastercfg.K8sNodePrefix, func(key string, _ []byte) bool {
			s.Nodes = append(s.Nodes, strings.TrimPrefix(key, mastercfg.K8sNodePrefix))
			return true
		})
		s.readServices(r)
		refused, err := refusedPods(r)
		if err != nil {
			return err
		}
		overlaps, err := overlappingRanges(r)
		s.tell(slices.Concat(refused, overlaps, now.Troubles))
		return err
	})
	return s, err
}

func (s *kubernetesStatus) tell(all []Trouble) {
	if s.Untold = max(0, len(all)-maxTroubles); s.Untold > 0 {
		all = all[:maxTroubles]
	}
	s.Troubles = append(s.Troubles, all...)
}

// readServices counts those that there are, and notes which have nobody behind them.
func (s *kubernetesStatus) readServices(r ledger.Reader) {
	r.Range(mastercfg.K8sServicePrefix, func(key string, _ []byte) bool {
		id := strings.TrimPrefix(key, mastercfg.K8sServicePrefix)
		s.Services++
		served := false
		r.Range(mastercfg.K8sBackendPrefix+id+"/", func(_ string, value []byte) bool {
			var b mastercfg.K8sBackend
			served = json.Unmarshal(value, &b) == nil && b.Serving
			return !served
		})
		if !served {
			s.Unserved = append(s.Unserved, id)
		}
		return true
	})
}

// refusedPods are those that have no place, or do not get what they ask for since.
func refusedPods(r ledger.Reader) (all []Trouble, err error) {
	err = ledger.ReadEach(r, mastercfg.K8sPodPrefix, func(_ string, p mastercfg.K8sPod) error {
		switch reason, message, later := strings.Cut(p.Later, ": "); {
		case p.Reason != "":
			all = append(all, Trouble{"pod " + p.Pod(), p.Reason, p.Message})
		case later:
			all = append(all, Trouble{"pod " + p.Pod(), reason, message})
		}
		return nil
	})
	return all, err
}

// overlappingRanges are networks in which addresses of services are, of tenants that have some.
func overlappingRanges(r ledger.Reader) (all []Trouble, err error) {
	services, err := ledger.Read[mastercfg.K8sServiceRanges](r, mastercfg.K8sRangesKey)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	for tenant := range tenantsWithServices(r) {
		for _, p := range services.Ranges {
			n, err := overlapping(r, tenant, p)
			if err != nil {
				return all, err
			}
			if n != nil {
				all = append(all, Trouble{"network " + tenant + "/" + n.NetworkName, "RangesOverlap",
					fmt.Sprintf("its addresses overlap those of services, %s: pods reach only one of both", p)})
			}
		}
	}
	return all, err
}

func tenantsWithServices(r ledger.Reader) map[string]struct{} {
	tenants := map[string]struct{}{mastercfg.DefaultTenant: {}}
	r.Range(mastercfg.K8sServicePrefix, func(key string, _ []byte) bool {
		tenant, _, _ := strings.Cut(strings.TrimPrefix(key, mastercfg.K8sServicePrefix), "/")
		tenants[tenant] = struct{}{}
		return true
	})
	return tenants
}

func overlapping(r ledger.Reader, tenant string, p netip.Prefix) (*contivmodel.Network, error) {
	if p.Addr().Is6() {
		return master.OverlapIPv6(r, tenant, p)
	}
	subnet, err := resources.ParseSubnet(p.String())
	if err != nil {
		return nil, err
	}
	return master.OverlapIPv4(r, tenant, subnet)
}
