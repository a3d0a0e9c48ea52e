package life

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/clustertest"
)

// containerd 2 asks for STATUS, which makes a node not ready that cannot attach pods, and calls ADD and DEL by
// another version of the CNI.
func TestContainerd2(t *testing.T) {
	c := clustertest.Up(t, cluster.Config{Nodes: 1, First: true, Containerd2: true}, false)
	s := on(t, c, clustertest.API(t, c), 2*podLimit)
	n := s.Nodes[0]
	s.soon(func() error {
		if now := s.readiness(n.Name); !strings.HasPrefix(now.runtime, "containerd://2.") || !now.ready {
			return fmt.Errorf("the node: %+v", now)
		}
		return nil
	})
	_, err := s.Kubectl(s.ctx, "--namespace", "kube-system", "scale", "deployment", "coredns", "--replicas=0")
	s.must(err)
	s.soon(func() error {
		all, err := list(s.ctx, s.api, "")
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("there are %d pods", len(all))
		}
		return err
	})
	own, err := n.PodLinks(s.ctx) // those of the node itself
	s.must(err)
	from, to := s.pod("from", 1), s.pod("to", 1)
	s.soon(func() error { return s.reaches(from, to.IP) })
	before := s.readiness(n.Name)

	s.must(n.Netplugin().Kill())
	s.must(n.StartNetplugin())
	s.must(n.WaitReady(s.ctx))
	s.must(s.Process(n, "containerd").Kill())
	s.must(s.StartContainerd(s.ctx, n))
	s.soon(func() error { return s.reaches(from, to.IP) })
	later := s.pod("later", 1)
	s.soon(func() error { return s.reaches(from, later.IP) })
	if now := s.readiness(n.Name); now != before {
		t.Errorf("a short outage was told: %+v, before %+v", now, before)
	}

	s.must(n.Netplugin().Terminate())
	s.must(remove(s.ctx, s.api, "to", false))
	s.soon(func() error { // by its runtime, as the agent has been away for so long
		if now := s.readiness(n.Name); now.ready || !strings.Contains(now.message, "network") {
			return fmt.Errorf("the node: %+v", now)
		}
		return nil
	})
	s.must(n.StartNetplugin())
	s.soon(func() error {
		if now := s.readiness(n.Name); !now.ready {
			return fmt.Errorf("the node: %+v", now)
		}
		return nil
	})
	last := s.pod("last", 1)
	s.soon(func() error { return s.reaches(from, last.IP) })
	for _, name := range []string{"from", "later", "last"} {
		s.must(remove(s.ctx, s.api, name, false))
	}
	s.soon(func() error {
		left, err := n.PodLinks(s.ctx)
		if err == nil && !slices.Equal(left, own) {
			err = fmt.Errorf("links %v, before pods came %v", left, own)
		}
		return err
	})
}

// readiness is the state of a node in the API server.
type readiness struct {
	ready   bool
	message string
	since   time.Time
	runtime string
}

func (s *story) readiness(name string) (r readiness) {
	s.Helper()
	var node struct {
		Status struct {
			Conditions []struct {
				Type, Status, Message string
				LastTransitionTime    time.Time
			}
			NodeInfo struct{ ContainerRuntimeVersion string }
		}
	}
	s.must(s.api.Do(s.ctx, http.MethodGet, "/api/v1/nodes/"+name, nil, &node))
	r.runtime = node.Status.NodeInfo.ContainerRuntimeVersion
	for _, c := range node.Status.Conditions {
		if c.Type == "Ready" {
			r.ready, r.message, r.since = c.Status == "True", c.Message, c.LastTransitionTime
		}
	}
	return r
}
