package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Following is the state of following Kubernetes.
type Following struct {
	Problem  string                          // why the leader does not follow it; empty: it does
	Waiting  int                             // changed objects that are not written to the state yet
	Behind   int                             // seconds since the oldest of these changes
	Troubles []contivmodel.KubernetesTrouble // objects with problems that the state does not show
}

// maxTroubles is the maximum number of reported troubles.
const maxTroubles = 50

// Follows sets the source of the Kubernetes status.
func (a *API) Follows(following func(context.Context) Following) { a.following.Store(&following) }

// kubernetes returns the status of Kubernetes; nil in other cluster modes.
func (a *API) kubernetes(ctx context.Context) (*contivmodel.KubernetesStatus, error) {
	if a.config.ClusterMode != "kubernetes" {
		return nil, nil
	}
	now := Following{Problem: "netmaster does not follow an API server, see its log"}
	if following := a.following.Load(); following != nil {
		now = (*following)(ctx)
	}
	s := &contivmodel.KubernetesStatus{
		Problem: now.Problem, Waiting: now.Waiting, Behind: now.Behind, Nodes: []string{}, Unserved: []string{},
		Troubles: []contivmodel.KubernetesTrouble{},
	}
	err := a.ledger.View(func(r ledger.Reader) error {
		r.Range(mastercfg.K8sNodePrefix, func(key string, _ []byte) bool {
			s.Nodes = append(s.Nodes, strings.TrimPrefix(key, mastercfg.K8sNodePrefix))
			return true
		})
		readKubeServices(s, r)
		refused, err := refusedPods(r)
		if err != nil {
			return err
		}
		overlaps, err := overlappingRanges(r)
		addTroubles(s, slices.Concat(refused, overlaps, now.Troubles))
		return err
	})
	return s, err
}

// addTroubles adds troubles up to the maximum.
func addTroubles(s *contivmodel.KubernetesStatus, all []contivmodel.KubernetesTrouble) {
	if s.Untold = max(0, len(all)-maxTroubles); s.Untold > 0 {
		all = all[:maxTroubles]
	}
	s.Troubles = append(s.Troubles, all...)
}

// readKubeServices counts the services, and lists those without a serving backend.
func readKubeServices(s *contivmodel.KubernetesStatus, r ledger.Reader) {
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

// refusedPods returns the pods that were not placed, or do not get what they asked for later.
func refusedPods(r ledger.Reader) (all []contivmodel.KubernetesTrouble, err error) {
	err = ledger.ReadEach(r, mastercfg.K8sPodPrefix, func(_ string, p mastercfg.K8sPod) error {
		switch reason, message, later := strings.Cut(p.Later, ": "); {
		case p.Reason != "":
			all = append(all, contivmodel.KubernetesTrouble{Object: "pod " + p.Pod(), Reason: p.Reason, Message: p.Message})
		case later:
			all = append(all, contivmodel.KubernetesTrouble{Object: "pod " + p.Pod(), Reason: reason, Message: message})
		}
		return nil
	})
	return all, err
}

// overlappingRanges returns the networks that overlap with service CIDRs, of tenants with services.
func overlappingRanges(r ledger.Reader) (all []contivmodel.KubernetesTrouble, err error) {
	services, err := ledger.Read[mastercfg.K8sServiceRanges](r, mastercfg.K8sRangesKey)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	for _, p := range services.Ranges {
		networks, err := master.InServices(r, p)
		if err != nil {
			return all, err
		}
		for _, n := range networks {
			all = append(all, contivmodel.KubernetesTrouble{Object: "network " + n.TenantName + "/" + n.NetworkName, Reason: "RangesOverlap",
				Message: fmt.Sprintf("its addresses, %s, overlap those of services, %s: pods reach only one of both; delete the network, or the ServiceCIDR, and make one of other addresses", master.SubnetLike(n, p), p)})
		}
	}
	return all, err
}
