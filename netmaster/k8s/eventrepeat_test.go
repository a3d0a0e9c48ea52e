package k8s

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// A leader may stop between writing that a pod is refused and creating the event, so that nothing shows why the
// pod waits: the next leader creates the event.
func TestTheNextLeaderTellsOfPodsThatAreRefused(t *testing.T) {
	w := newWorld(t)
	w.pod("web", "u1", "node1", func(p *corev1.Pod) { p.Annotations = map[string]string{mastercfg.GroupLabel: "missing"} })
	for leader := 1; leader <= 2; leader++ {
		stop := w.follow()
		w.eventually(func() error {
			if n := w.told("web", "GroupNotFound"); n != leader {
				return fmt.Errorf("%d events of leader %d and those before", n, leader)
			}
			return nil
		})
		stop()
	}
}

// Events expire after an hour: a lasting refusal is reported again, and one that has ended is dropped.
func TestARefusalThatHoldsIsToldAgain(t *testing.T) {
	w := newWorld(t)
	w.pod("web", "u1", "node1", func(p *corev1.Pod) { p.Annotations = map[string]string{mastercfg.GroupLabel: "missing"} })
	c := w.controller()
	recorder := events.NewFakeRecorder(10)
	c.recorder = recorder
	w.must(nil, c.policies.subscribe())
	defer c.policies.queue.ShutDown()
	core := c.informers.Core().V1()
	p := &placer{Controller: c, policies: c.policies, pods: core.Pods().Lister(), namespaces: core.Namespaces().Lister(), records: map[string]map[string]struct{}{}}
	pods, namespaces := core.Pods().Informer().GetIndexer(), core.Namespaces().Informer().GetIndexer()
	pod, err := w.client.CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{})
	w.must(nil, err)
	w.must(nil, pods.Add(pod))
	w.must(nil, namespaces.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
	tells := func(when string, want int) {
		t.Helper()
		w.must(p.place(t.Context(), "shop/web"))
		if got := len(recorder.Events); got != want {
			t.Errorf("%s: %d events, want %d", when, got, want)
		}
		for range len(recorder.Events) {
			<-recorder.Events
		}
	}
	tells("at first", 1)
	tells("a moment later", 0)
	p.refused.at["shop/web"] = time.Now().Add(-eventRepeat + time.Minute)
	tells("before it is time", 0)
	p.refused.at["shop/web"] = time.Now().Add(-eventRepeat)
	tells("when it is time", 1)
	tells("a moment after that", 0)
	ended := pod.DeepCopy()
	ended.Status.Phase = corev1.PodFailed
	w.must(nil, pods.Update(ended))
	p.refused.at["shop/web"] = time.Now().Add(-eventRepeat)
	tells("ended, when it is time", 0)
	if n := len(p.refused.at); n > 0 {
		t.Errorf("%d pods are remembered that have ended", n)
	}
	w.must(nil, pods.Update(pod))
	tells("not ended", 1)
	placed := pod.DeepCopy()
	placed.Annotations = nil
	w.must(nil, pods.Update(placed))
	tells("placed", 0)
	if n := len(p.refused.at); n > 0 {
		t.Errorf("%d pods are remembered that are not refused", n)
	}
	gone := pod.DeepCopy()
	gone.Name, gone.UID = "gone", "u2"
	w.must(nil, pods.Add(gone))
	w.must(p.place(t.Context(), "shop/gone"))
	w.must(nil, pods.Delete(gone))
	w.must(p.place(t.Context(), "shop/gone"))
	if n := len(p.refused.at); n > 0 {
		t.Errorf("%d pods are remembered that are gone", n)
	}
}
