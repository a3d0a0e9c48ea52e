package k8s

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	policyfake "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned/fake"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// world is a store, and an API server for the leader's controller.
type world struct {
	*testing.T
	client   *fake.Clientset
	policies *policyfake.Clientset
	ledger   *ledger.Ledger
	enforced *epochs
	db       *objdb.DB
}

func newWorld(t *testing.T) *world { return worldIn(t, storetest.Open(t)) }

func worldIn(t *testing.T, db *objdb.DB) *world {
	policies := policyfake.NewSimpleClientset()
	w := &world{t, fake.NewClientset(), policies, storetest.Lead(t, db), &epochs{of: map[string]mastercfg.K8sEnforced{}}, db}
	w.namespace("shop", nil)
	w.put(&contivmodel.Tenant{TenantName: "default"}, &contivmodel.Network{TenantName: "default", NetworkName: "default-net"})
	return w
}

// follow runs a controller until stop is called.
func (w *world) follow() (stop func()) { return w.run(w.controller()) }

func (w *world) controller() *Controller {
	return New(Config{Client: w.client, PolicyClient: w.policies, KindEvery: 10 * time.Millisecond, ReportEvery: 10 * time.Millisecond, EventEvery: 10 * time.Millisecond, UnmatchedGrace: 3 * time.Second,
		EnforcedPolicies: w.enforced.all, Choice: ByNamespace, Log: testkit.Quiet()}, w.ledger)
}

func (w *world) run(c *Controller) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := c.Run(ctx); ctx.Err() == nil {
			w.Error(err)
		}
	})
	stop = func() { cancel(); running.Wait() }
	w.Cleanup(stop)
	return stop
}

func (w *world) put(objects ...contivmodel.Object) {
	w.Helper()
	w.must(w.ledger.Update(w.Context(), func(tx *ledger.Tx) error {
		for _, o := range objects {
			if err := master.Put(tx, o); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (w *world) must(_ any, err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) namespace(name string, annotations map[string]string) {
	w.Helper()
	w.must(w.client.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}}, metav1.CreateOptions{}))
}

// pod creates a pod that is bound to a node.
func (w *world) pod(name, uid, node string, change func(*corev1.Pod)) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid)}, Spec: corev1.PodSpec{NodeName: node}}
	if change != nil {
		change(pod)
	}
	w.must(w.client.CoreV1().Pods(pod.Namespace).Create(w.Context(), pod, metav1.CreateOptions{}))
}

func (w *world) deletePod(name string) {
	w.Helper()
	w.must(nil, w.client.CoreV1().Pods("shop").Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// eventually waits until there is no error.
func (w *world) eventually(try func() error) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	if err := testkit.Poll(ctx, try); err != nil {
		w.Fatal(err)
	}
}

// want waits until exactly these records exist: "node/uid" -> "tenant/network/group" or the reason of a refusal.
func (w *world) want(want map[string]string) {
	w.Helper()
	w.eventually(func() error {
		got := map[string]string{}
		err := w.ledger.View(func(r ledger.Reader) error {
			return ledger.ReadEach(r, mastercfg.K8sPodPrefix, func(key string, p mastercfg.K8sPod) error {
				text := p.Reason
				if text == "" {
					text = p.Tenant + "/" + p.Network + "/" + p.Group
				}
				got[strings.TrimPrefix(key, mastercfg.K8sPodPrefix)] = text
				return nil
			})
		})
		if err == nil && !maps.Equal(got, want) {
			err = fmt.Errorf("records %v, want %v", got, want)
		}
		return err
	})
}

func TestPodsAreNotedWhereTheirNodesLook(t *testing.T) {
	w := newWorld(t)
	w.pod("web-0", "u0", "node1", nil)
	w.follow()
	w.want(map[string]string{"node1/u0": "default/default-net/"})

	w.pod("web-1", "u1", "", nil) // not bound to a node yet
	w.pod("agent", "u2", "node1", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	w.pod("static", "u3", "node2", func(p *corev1.Pod) { p.Annotations = map[string]string{hashAnnotation: "a5", mirrorAnnotation: "a5"} })
	w.pod("copied", "u4", "node2", func(p *corev1.Pod) { p.Annotations = map[string]string{hashAnnotation: "u0"} })
	w.want(map[string]string{"node1/u0": "default/default-net/", "node2/a5": "default/default-net/", "node2/u4": "default/default-net/"})

	bound, err := w.client.CoreV1().Pods("shop").Get(t.Context(), "web-1", metav1.GetOptions{})
	w.must(bound, err)
	bound.Spec.NodeName = "node3"
	w.must(w.client.CoreV1().Pods("shop").Update(t.Context(), bound, metav1.UpdateOptions{}))
	w.want(map[string]string{"node1/u0": "default/default-net/", "node2/a5": "default/default-net/", "node2/u4": "default/default-net/", "node3/u1": "default/default-net/"})

	// A pod of a StatefulSet is recreated with its name, and is another one.
	w.deletePod("web-0")
	w.pod("web-0", "u9", "node2", nil)
	w.deletePod("static")
	w.want(map[string]string{"node2/u4": "default/default-net/", "node2/u9": "default/default-net/", "node3/u1": "default/default-net/"})
}

func TestWhatHappenedWhileNobodyFollowedIsMadeUpFor(t *testing.T) {
	w := newWorld(t)
	stop := w.follow()
	w.pod("web-0", "u0", "node1", nil)
	w.pod("web-1", "u1", "node1", nil)
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/u1": "default/default-net/"})
	testkit.Eventually(t, time.Minute, "its class is known", func() bool {
		var record mastercfg.K8sPod
		w.must(nil, w.ledger.View(func(r ledger.Reader) (err error) {
			record, err = ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", "u1"))
			return err
		}))
		return record.Classed
	})
	stop()
	revision := func() (at int64) {
		w.must(nil, w.ledger.View(func(r ledger.Reader) error {
			at = r.Revision(mastercfg.K8sPodKey("node1", "u1"))
			return nil
		}))
		return at
	}
	written := revision()
	w.deletePod("web-0")
	w.pod("web-2", "u2", "node2", nil)
	w.follow()
	w.want(map[string]string{"node1/u1": "default/default-net/", "node2/u2": "default/default-net/"})
	if now := revision(); now != written || written == 0 {
		t.Errorf("what was right already is written again: revision %d, then %d", written, now)
	}
}

// A record belongs to the pod that it names, whatever other pods claim.
func TestAPodDoesNotTakeTheRecordOfAnother(t *testing.T) {
	w := newWorld(t)
	w.follow()
	w.pod("victim", "a0", "node1", nil)
	w.want(map[string]string{"node1/a0": "default/default-net/"})
	w.pod("thief", "a1", "node1", func(p *corev1.Pod) {
		p.Labels = map[string]string{mastercfg.GroupLabel: "front"}
		p.Annotations = map[string]string{hashAnnotation: "a0", mirrorAnnotation: "a0"}
	})
	w.pod("third", "a3", "node1", nil)
	w.want(map[string]string{"node1/a0": "default/default-net/", "node1/a3": "default/default-net/"})
	w.deletePod("thief")
	w.deletePod("third")
	w.pod("fourth", "a4", "node1", nil)
	w.want(map[string]string{"node1/a0": "default/default-net/", "node1/a4": "default/default-net/"})
}

func TestARefusedPodIsToldOnceAndPlacedWhenItCanBe(t *testing.T) {
	w := newWorld(t)
	w.follow()
	w.pod("web-0", "u0", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{mastercfg.GroupLabel: "front"} })
	w.want(map[string]string{"node1/u0": "GroupNotFound"})
	var told []eventsv1.Event
	w.eventually(func() error {
		list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) == 0 {
			err = fmt.Errorf("no event")
		}
		told = list.Items
		return err
	})
	if e := told[0]; len(told) != 1 || e.Reason != "GroupNotFound" || e.Regarding.Name != "web-0" || !strings.Contains(e.Note, "netctl group create") {
		t.Errorf("events %+v", told)
	}
	w.put(&contivmodel.EndpointGroup{TenantName: "default", GroupName: "front", NetworkName: "default-net"})
	w.want(map[string]string{"node1/u0": "default/default-net/front"})
}
