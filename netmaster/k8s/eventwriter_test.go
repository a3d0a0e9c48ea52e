package k8s

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	kubetesting "k8s.io/client-go/testing"

	"github.com/contiv/netplugin/test/testkit"
)

// The text of an event is fixed in the API: another text for the same reason, of an unchanged object, is another
// event.
func TestOtherWordsForAReasonReachTheAPIServer(t *testing.T) {
	w := newWorld(t)
	w.nodes("node1", "node2")
	w.service("web", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }, "http=80")
	c := w.controller()
	w.run(c)
	for _, node := range []string{"node1", "node2"} {
		w.enforced.ports(node, "service web NodePortInUse")
		w.toldThat("web", "NodePortInUse", "on "+node+": somebody has it on "+node)
		w.enforced.ports(node)
		w.wantTroubles(c, []string{}...)
	}
}

// writes runs a writer of events; a test reports events with say.
func (w *world) writes(every time.Duration) (say func(namespace, name, reason, note string)) {
	return w.writesAndLogs(every, testkit.Quiet())
}

func (w *world) writesAndLogs(every time.Duration, log *logrus.Entry) (say func(namespace, name, reason, note string)) {
	writer, err := newEventWriter(w.client.EventsV1(), scheme.Scheme, every, log)
	w.must(writer, err)
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { writer.run(ctx) })
	w.Cleanup(func() { cancel(); running.Wait() })
	return func(namespace, name, reason, note string) {
		writer.Eventf(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}, nil, corev1.EventTypeWarning, reason, "Serve", "%s", note)
	}
}

// notes returns the texts of the events in a namespace.
func (w *world) notes(namespace string) (notes []string) {
	w.Helper()
	list, err := w.client.EventsV1().Events(namespace).List(w.Context(), metav1.ListOptions{})
	w.must(list, err)
	for _, e := range list.Items {
		notes = append(notes, e.Note)
	}
	slices.Sort(notes)
	return notes
}

// For an object and a reason, there is one event in a period; other objects and reasons do not wait.
func TestEventsOfAReasonKeepTheirDistance(t *testing.T) {
	w := newWorld(t)
	say := w.writes(time.Hour)
	say("shop", "web", "NodePortInUse", "1: the first words")
	w.toldThat("web", "NodePortInUse", "1")
	say("shop", "web", "NodePortInUse", "2: not within the hour")
	say("shop", "web", "PortNotServed", "3: another reason")
	say("shop", "db", "NodePortInUse", "4: another object")
	w.toldThat("db", "NodePortInUse", "4") // written in the order in which they were reported
	if got := w.notes("shop"); len(got) != 3 || !strings.HasPrefix(got[1], "3") {
		t.Errorf("events %q", got)
	}

	say = w.writes(time.Millisecond)
	say("shop", "api", "NodePortInUse", "1: the first words")
	w.toldThat("api", "NodePortInUse", "1")
	say("shop", "api", "NodePortInUse", "2: when the time is over")
	w.toldThat("api", "NodePortInUse", "2")
}

// An event that cannot be written is retried, with the latest text; one that the API server rejects does not block
// others.
func TestEventsOutlastAnAPIServerThatIsAway(t *testing.T) {
	w := newWorld(t)
	away := make(chan struct{})
	var tries atomic.Int32
	w.client.PrependReactor("create", "events", func(action kubetesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == "ending" {
			return true, nil, apierrors.NewForbidden(corev1.Resource("events"), "", errors.New("namespace ending is being terminated"))
		}
		if n := tries.Add(1); n == 1 || n == 3 {
			<-away
			return true, nil, errors.New("connection refused")
		}
		return false, nil, nil
	})
	say := w.writes(time.Millisecond)
	say("shop", "web", "NodePortInUse", "1: nobody reads this")
	w.eventually(func() error {
		if tries.Load() == 0 {
			return errors.New("not tried yet")
		}
		return nil
	})
	say("ending", "web", "NodePortInUse", "refused")
	say("shop", "web", "NodePortInUse", "2: while it was away")
	close(away)
	w.toldThat("web", "NodePortInUse", "2")
	say("shop", "web", "NodePortInUse", "3: at the second try")
	w.toldThat("web", "NodePortInUse", "3")
	if got := w.notes("shop"); len(got) != 2 {
		t.Errorf("events %q", got)
	}
}

// An outage of the API server is logged once, however often each event is retried, and so is its end.
func TestAnAPIServerThatTakesNoEventsIsLoggedOnce(t *testing.T) {
	w := newWorld(t)
	logger, messages := logtest.NewNullLogger()
	logged := func() (all []string) {
		for _, e := range messages.AllEntries() {
			all = append(all, e.Level.String()+" "+e.Message+fmt.Sprint(" ", e.Data["replaced"]))
		}
		return all
	}
	var tries, back atomic.Int32
	w.client.PrependReactor("create", "events", func(action kubetesting.Action) (bool, runtime.Object, error) {
		switch name := action.(kubetesting.CreateAction).GetObject().(*eventsv1.Event).Regarding.Name; {
		case back.Load() > 0 && name == "odd":
			return true, nil, apierrors.NewInvalid(eventsv1.SchemeGroupVersion.WithKind("Event").GroupKind(), "", nil)
		case back.Load() > 0:
			return false, nil, nil
		}
		tries.Add(1)
		return true, nil, errors.New("connection refused")
	})
	tried := func(more int32) {
		t.Helper()
		until := tries.Load() + more
		w.eventually(func() error {
			if n := tries.Load(); n < until {
				return fmt.Errorf("%d tries", n)
			}
			return nil
		})
	}
	say := w.writesAndLogs(time.Millisecond, logger.WithField("component", "test"))
	say("shop", "web", "NodePortInUse", "1: nobody reads this")
	tried(3)
	say("shop", "web", "NodePortInUse", "2: nor this")
	say("shop", "db", "NodePortInUse", "3")
	say("shop", "odd", "NodePortInUse", "4: refused")
	tried(6)
	say("shop", "web", "NodePortInUse", "5")
	const begin = "warning kubernetes: event NodePortInUse of Service shop/web is not written: 1: nobody reads this; it is tried again, as are others, until the API server answers <nil>"
	if got := logged(); !slices.Equal(got, []string{begin}) {
		t.Errorf("logged %q", got)
	}
	back.Store(1)
	const refused = "warning kubernetes: event NodePortInUse of Service shop/odd is not written: 4: refused <nil>"
	const end = "info kubernetes: the API server answers to events again; of those that waited the last words for a reason are told 2"
	w.eventually(func() error {
		if got := logged(); len(got) != 3 || got[0] != begin || !slices.Contains(got, refused) || !slices.Contains(got, end) {
			return fmt.Errorf("logged %q", got)
		}
		return nil
	})
	w.eventually(func() error {
		if got := w.notes("shop"); !slices.Equal(got, []string{"3", "5"}) {
			return fmt.Errorf("events %q", got)
		}
		return nil
	})
}
