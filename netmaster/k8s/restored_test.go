package k8s

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	policyfake "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned/fake"

	"github.com/contiv/netplugin/test/testkit"
)

// podsAt makes the API server answer lists of pods with these.
func podsAt(client *fake.Clientset, list *atomic.Pointer[corev1.PodList]) {
	client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, list.Load(), nil })
}

func podList(version int, pods ...corev1.Pod) *corev1.PodList {
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(version)}, Items: pods}
}

// Informers miss all changes of an API server that was restored from a backup: their watches begin at a version that
// it has not reached yet.
func TestARestoredAPIServerIsNoticed(t *testing.T) {
	var list atomic.Pointer[corev1.PodList]
	list.Store(podList(1000))
	client := fake.NewClientset()
	podsAt(client, &list)
	c := New(Config{Client: client, PolicyClient: policyfake.NewSimpleClientset(), Log: testkit.Quiet()}, nil)
	if err := c.checkRestored(t.Context()); err != nil {
		t.Errorf("before the first list: %v", err)
	}
	pods := c.informers.Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	defer c.informers.Shutdown()
	defer cancel()
	c.informers.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		t.Fatal("there is no list of pods")
	}
	for _, now := range []int{1000, 1001, 20000} {
		list.Store(podList(now))
		if err := c.checkRestored(t.Context()); err != nil {
			t.Errorf("version %d after 1000: %v", now, err)
		}
	}
	for _, now := range []int{999, 1} {
		list.Store(podList(now))
		if err := c.checkRestored(t.Context()); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("from resource version 1000 to %d,", now)) {
			t.Errorf("version %d after 1000: %v", now, err)
		}
	}
	client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewTooManyRequests("slow down", 1)
	})
	if err := c.checkRestored(t.Context()); err != nil {
		t.Errorf("without an answer: %v", err)
	}
}

// A controller ends with the reason, and the next one takes over what the API server has now.
func TestAControllerEndsWhenItsAPIServerIsRestored(t *testing.T) {
	w := newWorld(t)
	var list atomic.Pointer[corev1.PodList]
	list.Store(podList(1000, *onNode("u1", "", "node1")))
	podsAt(w.client, &list)
	c := New(Config{Client: w.client, PolicyClient: w.policies, Choice: ByNamespace, RestoredEvery: 10 * time.Millisecond, Log: testkit.Quiet()}, w.ledger)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context()) }()
	w.want(map[string]string{"node1/u1": "default/default-net/"})
	list.Store(podList(900))
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "has gone back from resource version 1000 to 900") {
			t.Errorf("ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	w.follow()
	w.want(map[string]string{}) // the backup has no pod
}
