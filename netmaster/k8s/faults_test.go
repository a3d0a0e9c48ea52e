package k8s

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	k8stesting "k8s.io/client-go/testing"

	"github.com/contiv/netplugin/test/testkit"
)

// started starts a controller and returns it. Streams of tests have versions that lists do not know.
func (w *world) started() *Controller {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	c := New(Config{Client: w.client, PolicyClient: w.policies, Choice: ByNamespace, RestoredEvery: time.Hour, Log: testkit.Quiet()}, w.ledger)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-ended; err != context.Canceled {
			w.Errorf("ended with %v", err)
		}
	})
	return c
}

// Whatever the API server first answers to lists, nothing is removed, and finally the state is correct.
func TestListsThatAreRefusedRemoveNothing(t *testing.T) {
	w := newWorld(t)
	w.pod("web", "u1", "node1", nil)
	w.pod("gone", "u2", "node1", nil)
	stop := w.follow()
	w.want(map[string]string{"node1/u1": "default/default-net/", "node1/u2": "default/default-net/"})
	stop()
	before := w.state()
	w.deletePod("gone") // while there is no controller

	answers := []error{
		apierrors.NewTooManyRequests("slow down", 1),
		apierrors.NewResourceExpired("too old"),
		apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no such right")),
	}
	refused, let := make(chan struct{}, len(answers)), make(chan struct{})
	w.client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
		if len(answers) == 0 {
			<-let // slow
			return false, nil, nil
		}
		answer := answers[0]
		answers = answers[1:]
		refused <- struct{}{}
		return true, nil, answer
	})
	c := w.started()
	for range cap(refused) {
		select {
		case <-refused:
		case <-time.After(time.Minute):
			t.Fatal("it is not asked again")
		}
	}
	if now := w.state(); !maps.Equal(now, before) {
		t.Errorf("state %v, was %v", now, before)
	}
	if s := c.State(t.Context()); s.Problem == "" {
		t.Error("there is no list of pods, and that is no problem")
	}
	close(let)
	w.want(map[string]string{"node1/u1": "default/default-net/"})
	w.eventually(func() error {
		if s := c.State(t.Context()); s.Problem != "" || s.Waiting > 0 {
			return fmt.Errorf("state %+v", s)
		}
		return nil
	})
}

// The right to list a kind may be revoked while watches continue: that shows only when they end.
func TestAKindThatMayNotBeListedAnyMoreIsAProblem(t *testing.T) {
	w := newWorld(t)
	c := w.started()
	problem := func(want string) {
		t.Helper()
		w.eventually(func() error {
			if s := c.State(t.Context()); !strings.Contains(s.Problem, want) || (want == "") != (s.Problem == "") {
				return fmt.Errorf("state %+v, want %q", s, want)
			}
			return nil
		})
	}
	problem("")
	for _, kind := range []string{"nodes", "namespaces", "pods", "services", "endpointslices", "networkpolicies", "servicecidrs"} {
		var may atomic.Bool
		w.client.PrependReactor("list", kind, func(k8stesting.Action) (bool, runtime.Object, error) {
			return !may.Load(), nil, apierrors.NewForbidden(corev1.Resource(kind), "", errors.New("no such right"))
		})
		problem("netmaster may not list what it follows: " + kind + " is forbidden: no such right; deploy/kubernetes/base/rbac.yaml has what it needs")
		may.Store(true)
		problem("")
	}
}

// streams replaces watches of pods by those of the test; lists are those of the API server.
func (w *world) streams() <-chan *watch.FakeWatcher {
	opened := make(chan *watch.FakeWatcher, 16)
	w.client.PrependWatchReactor("pods", func(k8stesting.Action) (bool, watch.Interface, error) {
		stream := watch.NewFakeWithChanSize(16, false)
		opened <- stream
		return true, stream, nil
	})
	return opened
}

func (w *world) opened(streams <-chan *watch.FakeWatcher) *watch.FakeWatcher {
	w.Helper()
	select {
	case s := <-streams:
		return s
	case <-time.After(time.Minute):
		w.Fatal("pods are not watched")
		return nil
	}
}

func onNode(uid, version, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: types.UID(uid), ResourceVersion: version}, Spec: corev1.PodSpec{NodeName: node}}
}

// Repeated, late and missing events are corrected, at the latest by the next list.
func TestAStreamOfNonsenseEndsWell(t *testing.T) {
	w := newWorld(t)
	streams := w.streams()
	c := w.started()
	s := w.opened(streams)
	s.Add(onNode("u1", "10", "node1"))
	s.Add(onNode("u1", "10", "node1"))
	s.Modify(onNode("u1", "9", "")) // older: not bound yet
	s.Modify(onNode("u1", "11", "node1"))
	s.Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "never"}})
	w.want(map[string]string{"node1/u1": "default/default-net/"})
	s.Delete(onNode("u1", "12", "node1"))
	s.Delete(onNode("u1", "12", "node1"))
	s.Add(onNode("u2", "13", "node2")) // the next pod of its name
	w.want(map[string]string{"node2/u2": "default/default-net/"})

	// The watch has expired: its objects are not in the list.
	w.pod("web", "u3", "node3", nil)
	tooOld(s)
	w.want(map[string]string{"node3/u3": "default/default-net/"})
	next := w.opened(streams)

	// The API server is unavailable, and the watch expires meanwhile.
	var away atomic.Bool
	away.Store(true)
	for _, resource := range []string{"pods", "nodes"} {
		w.client.PrependReactor("list", resource, func(k8stesting.Action) (bool, runtime.Object, error) {
			return away.Load(), nil, fmt.Errorf("connection refused")
		})
	}
	tooOld(next)
	w.eventually(func() error {
		if s := c.State(t.Context()); !strings.Contains(s.Problem, "connection refused") {
			return fmt.Errorf("state %+v", s)
		}
		return nil
	})
	w.want(map[string]string{"node3/u3": "default/default-net/"})
	w.deletePod("web")
	away.Store(false)
	w.want(map[string]string{})
}

// tooOld ends a watch as the API server does when the watch's revision has expired.
func tooOld(s *watch.FakeWatcher) {
	s.Error(&metav1.Status{Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "too old"})
}

// Wrong clocks of other machines do not matter: a refused pod is checked again within bounds.
func TestAPodOfTomorrowIsLookedAtAgainSoon(t *testing.T) {
	now := time.Now()
	for age, want := range map[time.Duration]time.Duration{
		-24 * time.Hour: refusedFirst, -time.Second: refusedFirst, 0: refusedFirst, 100 * time.Second: 10 * time.Second, 24 * time.Hour: refusedLast,
	} {
		if got := refusedAgain(now.Add(-age), now); got != want {
			t.Errorf("age %s: %s, want %s", age, got, want)
		}
	}
}

func TestTheLagIsThatOfTheFirstChange(t *testing.T) {
	l := newLag(NewMetrics().waiting.WithLabelValues("pod"))
	now := time.Now()
	l.marked("a", now.Add(time.Second))
	l.marked("b", now)
	l.marked("b", now.Add(2*time.Second))
	if count, first := l.waiting(); count != 2 || !first.Equal(now) {
		t.Errorf("%d wait, since %s", count, first)
	}
	l.begin("b")
	l.marked("b", now.Add(3*time.Second)) // while it is written, which fails
	if count, first := l.waiting(); count != 2 || !first.Equal(now) {
		t.Errorf("while b is written %d wait, since %s", count, first)
	}
	if since := l.end("b", false); !since.Equal(now) {
		t.Errorf("b waited since %s", since)
	}
	if count, first := l.waiting(); count != 2 || !first.Equal(now) {
		t.Errorf("%d wait, since %s", count, first)
	}
	l.begin("b")
	l.end("b", true)
	if count, first := l.waiting(); count != 1 || !first.Equal(now.Add(time.Second)) {
		t.Errorf("%d wait, since %s", count, first)
	}
	l.begin("c")
	if since := l.end("c", true); !since.IsZero() {
		t.Errorf("c waited since %s", since)
	}
}
