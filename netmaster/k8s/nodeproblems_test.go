package k8s

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// ports sets a node's report of ports that are not served: "kind name reason".
func (e *epochs) ports(node string, said ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	record := mastercfg.K8sEnforced{}
	for _, s := range said {
		words := strings.Fields(s)
		record.Troubles = append(record.Troubles, mastercfg.K8sTrouble{Kind: words[0], Namespace: "shop", Name: words[1], Reason: words[2], Message: "somebody has it on " + node})
	}
	e.of[node] = record
}

// The scheduler cannot keep a static pod from a port that is in use. Its node knows the pod by its hash.
func TestWhatANodeTellsOfAStaticPodIsToldOfItsMirror(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1")
	w.pod("static", "u1", "node1", func(p *corev1.Pod) { p.Annotations = map[string]string{hashAnnotation: "a5", mirrorAnnotation: "a5"} })
	c := w.controller()
	w.run(c)
	says := func(uid string) {
		w.enforced.mu.Lock()
		defer w.enforced.mu.Unlock()
		w.enforced.of["node1"] = mastercfg.K8sEnforced{Troubles: []mastercfg.K8sTrouble{
			{Kind: mastercfg.K8sOfPod, Namespace: "shop", Name: "static", UID: uid, Reason: mastercfg.HostPortConflict, Message: "another pod has it"}}}
	}
	says("a5")
	w.toldThat("static", mastercfg.HostPortConflict, "on node1: another pod has it")
	says("a6")
	w.wantTroubles(c, []string{}...)
}

// A node's trouble is reported as long as the node reports it; of pods only the node's own, and only with reasons
// that nodes may report.
func TestPortsOfNodesThatDoNotServeAreTold(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1", "node2")
	w.service("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, "http=80")
	w.pod("db", "u1", "node2", nil)
	c := w.controller()
	w.run(c)
	w.enforced.ports("node1", "service web NodePortInUse", "pod db HostPortInUse", "service gone NodePortInUse", "pod db HostPortConflict", "service web Anything", "service web ProbesNotReached", "pod db ProbesNotReached", "pod db NodePortInUse", "node node1 NodePortInUse")
	w.wantTroubles(c, "service shop/web NodePortInUse")
	w.toldThat("web", "NodePortInUse", "on node1: somebody has it on node1")
	w.enforced.ports("node2", "service web NodePortInUse", "pod db HostPortInUse", "pod db ProbesNotReached", "service web FailedToStartServiceHealthcheck", "service web LoadBalancerPortInUse")
	w.wantTroubles(c, "pod shop/db HostPortInUse", "pod shop/db ProbesNotReached", "service shop/web FailedToStartServiceHealthcheck", "service shop/web LoadBalancerPortInUse", "service shop/web NodePortInUse")
	w.wantMessage(c, "NodePortInUse", "on node1 and others: somebody has it on node1")
	w.toldThat("web", "FailedToStartServiceHealthcheck", "on node2: somebody")
	w.toldThat("db", "HostPortInUse", "on node2: somebody")
	w.enforced.ports("node2", "service web NodePortInUse", "pod db HostPortConflict")
	w.wantTroubles(c, "pod shop/db HostPortConflict", "service shop/web NodePortInUse")
	w.toldThat("db", "HostPortConflict", "on node2: somebody")
	w.enforced.ports("node2", "service web NodePortInUse")
	w.enforced.ports("node1")
	w.wantMessage(c, "NodePortInUse", "on node2: somebody has it on node2")
	w.enforced.ports("node2")
	w.wantTroubles(c, []string{}...)

	// Deleted objects have no trouble.
	w.enforced.ports("node2", "service web NodePortInUse", "pod db HostPortInUse")
	w.wantTroubles(c, "pod shop/db HostPortInUse", "service shop/web NodePortInUse")
	w.deletePod("db")
	w.must(nil, w.client.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.wantTroubles(c, []string{}...)
}

// A pod recreated with its name is another one: a node's report about the previous one does not apply to it.
func TestAPortOfAPodThatIsMadeAgainIsNotTheOnesBefore(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1", "node2")
	w.pod("db", "u2", "node2", nil)
	w.pod("other", "o1", "node2", nil)
	c := w.controller()
	w.run(c)
	says := func(uid string) {
		of := func(name, uid string) mastercfg.K8sTrouble {
			return mastercfg.K8sTrouble{Kind: mastercfg.K8sOfPod, Namespace: "shop", Name: name, UID: uid, Reason: mastercfg.HostPortInUse, Message: "somebody has it"}
		}
		w.enforced.mu.Lock()
		defer w.enforced.mu.Unlock()
		w.enforced.of["node2"] = mastercfg.K8sEnforced{Troubles: []mastercfg.K8sTrouble{of("db", uid), of("other", "o1")}}
	}
	says("u1")
	w.wantTroubles(c, "pod shop/other HostPortInUse")
	says("u2")
	w.wantTroubles(c, "pod shop/db HostPortInUse", "pod shop/other HostPortInUse")
	says("") // an agent of an earlier version
	w.wantTroubles(c, "pod shop/db HostPortInUse", "pod shop/other HostPortInUse")
}

// wantMessage waits until the trouble with a reason has this message.
func (w *world) wantMessage(c *Controller, reason, want string) {
	w.Helper()
	w.eventually(func() error {
		for _, trouble := range c.State(w.Context()).Troubles {
			if trouble.Reason == reason && trouble.Message == want {
				return nil
			}
		}
		return fmt.Errorf("no trouble %s: %s", reason, want)
	})
}
