package life

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testkit"
)

// story is a test with a cluster of its own, and as much time as it may take.
type story struct {
	*testing.T
	*cluster.Cluster
	api *cluster.API
	ctx context.Context
}

// begin starts a cluster.
func begin(t *testing.T, nodes int, limit time.Duration) *story {
	t.Helper()
	c, api := up(t, nodes)
	return on(t, c, api, limit)
}

// on is a story of a cluster that others have as well.
func on(t *testing.T, c *cluster.Cluster, api *cluster.API, limit time.Duration) *story {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return &story{t, c, api, ctx}
}

// Stories of one node have one cluster, one after the other.
func TestOnOneNode(t *testing.T) {
	t.Setenv("CONTIV_NETPLUGIN_PROBED_NETWORKS", probedNetworks) // which the cluster's processes have
	c, api := up(t, 1)
	for _, one := range []struct {
		name string
		tell func(*story)
	}{
		{"the bandwidth of a pod follows its annotations", (*story).bandwidth},
		{"a tenant is for the namespaces that it names", (*story).tenants},
		{"what pods and services do not get is told by events", (*story).told},
		{"a policy that a switch has no room for is told until it has", (*story).refused},
		{"an isolated pod is reached where a rule of its group allows it finally", (*story).final},
		{"a static pod starts while the API server is away", (*story).static},
	} {
		t.Run(one.name, func(t *testing.T) { one.tell(on(t, c, api, 2*podLimit)) })
	}
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// soon waits until there is no error.
func (s *story) soon(try func() error) {
	s.Helper()
	s.must(testkit.Poll(s.ctx, try))
}

// pod starts a pod on one of the nodes, the first is 1.
func (s *story) pod(name string, node int) *cluster.Pod {
	s.Helper()
	p, err := s.StartPod(s.ctx, name, s.Nodes[node-1])
	s.must(err)
	return p
}

// policy makes a NetworkPolicy.
func (s *story) policy(name string, spec object) {
	s.Helper()
	s.must(s.api.Do(s.ctx, http.MethodPost, policiesPath, object{"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
		"metadata": object{"name": name}, "spec": spec}, nil))
}

// noPolicy deletes a NetworkPolicy.
func (s *story) noPolicy(name string) {
	s.Helper()
	s.must(s.api.Do(s.ctx, http.MethodDelete, policiesPath+"/"+name, nil, nil))
}

const policiesPath = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"

// selects returns a selector of a pod by the label that `kubectl run` sets.
func selects(pod string) object { return object{"matchLabels": object{"run": pod}} }

// reaches returns why a pod does not reach an address.
func (s *story) reaches(from *cluster.Pod, address string) error {
	_, err := from.Run(s.ctx, "ping", "-c", "1", "-W", "1", address)
	return err
}

// isolated returns an error if a pod reaches an address: a packet may be lost, three in a row are not.
func (s *story) isolated(from *cluster.Pod, address string) error {
	for range 3 {
		if s.reaches(from, address) == nil {
			return fmt.Errorf("%s reaches %s", from.Name, address)
		}
	}
	return s.ctx.Err()
}

// toldOf is what the first event of a reason is about.
func (s *story) toldOf(reason string) (name string, err error) {
	out, err := s.Kubectl(s.ctx, "get", "events", "--field-selector", "reason="+reason, "-o", "jsonpath={.items[*].involvedObject.name}")
	if err != nil {
		return "", err
	}
	if names := strings.Fields(out); len(names) > 0 {
		return names[0], nil
	}
	return "", errors.New("no event " + reason)
}
