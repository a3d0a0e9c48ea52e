package k8s

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/contiv/netplugin/test/testkit"
)

func TestTheFirstChangeIsLookedAtAtOnceAndThoseSoonAfterItTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rest = 10 * time.Millisecond
		began := time.Now()
		var mu sync.Mutex
		looks := map[string][]time.Duration{}
		w := &reconciler{kind: "service", workers: 2, rest: rest, reconcile: func(_ context.Context, key string) (time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			looks[key] = append(looks[key], time.Since(began))
			return 0, nil
		}}
		c := &Controller{cfg: Config{Metrics: NewMetrics(), Log: testkit.Quiet()}}
		w.lag = newLag(c.cfg.Metrics.waiting.WithLabelValues(w.kind))
		if err := w.subscribe(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.run(ctx, w) })
		defer running.Wait()
		defer stop()
		want := func(key string, times ...time.Duration) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(looks[key], times) {
				t.Errorf("%s was looked at after %v, want %v", key, looks[key], times)
			}
		}

		w.enqueue("web")
		want("web", 0)
		for range 5 { // a burst, and another service meanwhile
			time.Sleep(time.Millisecond)
			w.enqueue("web")
		}
		w.enqueue("mail")
		want("web", 0)
		want("mail", 5*time.Millisecond)
		time.Sleep(time.Second)
		want("web", 0, rest)
		want("mail", 5*time.Millisecond)
		at := time.Since(began)
		w.enqueue("web")
		want("web", 0, rest, at)
	})
}

// Each node updates its heartbeat every few minutes, and a load balancer may have given its address to very many
// services: these are reconciled only when its addresses change.
func TestServicesAreLookedAtWhenANodeHasOtherAddressesOnly(t *testing.T) {
	node := func(name, address string, told time.Time) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(told)}}}}
	}
	begun := time.Now()
	client := fake.NewClientset(node("node1", "192.0.2.1", begun), node("node2", "192.0.2.2", begun))
	c := &Controller{cfg: Config{Metrics: NewMetrics(), Log: testkit.Quiet()}, informers: informers.NewSharedInformerFactory(client, 0)}
	services := c.serviceReconcilers()[0]
	unchanged := node("node1", "192.0.2.1", begun)
	ofOthers := func(f followed) bool { return f.same == nil || !f.same(unchanged, unchanged) }
	w := &reconciler{kind: "service", follows: slices.DeleteFunc(services.follows, ofOthers)}
	looked := make(chan string, 10)
	w.follows[0].concerns = func(object any) []string {
		looked <- object.(*corev1.Node).Status.Addresses[0].Address
		return nil
	}
	if err := w.subscribe(); err != nil {
		t.Fatal(err)
	}
	next := func(n int) (addresses []string) {
		for range n {
			select {
			case address := <-looked:
				addresses = append(addresses, address)
			case <-time.After(time.Minute):
				t.Fatalf("after %v nobody looks at services", addresses)
			}
		}
		return addresses
	}
	c.informers.Start(t.Context().Done())
	next(2)
	for _, now := range []*corev1.Node{node("node1", "192.0.2.1", begun.Add(5*time.Minute)), node("node2", "192.0.2.3", begun)} {
		if _, err := client.CoreV1().Nodes().Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := next(2); !slices.Equal(got, []string{"192.0.2.2", "192.0.2.3"}) {
		t.Errorf("services with addresses %v are looked at", got)
	}
}
