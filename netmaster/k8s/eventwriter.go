package k8s

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
	"k8s.io/client-go/util/workqueue"

	eventsclient "k8s.io/client-go/kubernetes/typed/events/v1"
)

// eventEvery is the minimum interval of events of an object with the same reason.
const eventEvery = time.Minute

// eventWriter writes events to the API server, at most one in a period for each object and reason: of later
// ones, the last is written at the end of the period. Each event has its own text: the recorder of client-go
// would count events of a reason, and keep the text of the first.
type eventWriter struct {
	client   eventsclient.EventsV1Interface
	kinds    *runtime.Scheme // kinds that events may refer to
	every    time.Duration
	log      *logrus.Entry
	instance string
	queue    workqueue.TypedRateLimitingInterface[about]

	mu      sync.Mutex
	waiting map[about]*eventsv1.Event // nil: written, and the period is not over
	outage  outage
}

// outage is a period in which the API server answers no event request. Its start and end are logged, not each attempt.
type outage struct {
	since    time.Time // zero: none
	replaced int       // events that were replaced by later ones before they were written
}

// about is the subject of an event: an object, without its version, and a reason.
type about struct {
	object corev1.ObjectReference
	reason string
}

// String returns the subject for messages.
func (a about) String() string {
	return fmt.Sprintf("%s of %s %s/%s", a.reason, a.object.Kind, a.object.Namespace, a.object.Name)
}

const reporter = "contiv-netmaster"

func newEventWriter(client eventsclient.EventsV1Interface, kinds *runtime.Scheme, every time.Duration, log *logrus.Entry) (*eventWriter, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("kubernetes: the name of this machine, which events tell: %w", err)
	}
	return &eventWriter{
		client: client, kinds: kinds, every: every, log: log, instance: reporter + "-" + host,
		waiting: map[about]*eventsv1.Event{},
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[about](retryFirst, retryMost)),
	}, nil
}

// Eventf queues an event.
func (w *eventWriter) Eventf(object, related runtime.Object, kind, reason, action, note string, args ...any) {
	event, err := w.event(object, related, kind, reason, action, fmt.Sprintf(note, args...))
	if err != nil {
		w.log.WithError(err).Error("kubernetes: an event is not written")
		return
	}
	key := about{event.Regarding, reason}
	key.object.ResourceVersion = ""
	w.mu.Lock()
	defer w.mu.Unlock()
	before, queued := w.waiting[key]
	if before != nil && !w.outage.since.IsZero() {
		w.outage.replaced++
	}
	if w.waiting[key] = event; !queued {
		w.queue.Add(key)
	}
}

func (w *eventWriter) event(object, related runtime.Object, kind, reason, action, note string) (*eventsv1.Event, error) {
	regarding, err := reference.GetReference(w.kinds, object)
	if err != nil {
		return nil, fmt.Errorf("event %s: %s: what it is about: %w", reason, note, err)
	}
	now := time.Now()
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: util.GenerateEventName(regarding.Name, now.UnixNano()), Namespace: regarding.Namespace},
		EventTime:  metav1.MicroTime{Time: now}, ReportingController: reporter, ReportingInstance: w.instance,
		Type: kind, Reason: reason, Action: action, Note: note, Regarding: *regarding,
	}
	if event.Namespace == "" {
		event.Namespace = metav1.NamespaceDefault // for cluster-scoped objects
	}
	if related != nil {
		if event.Related, err = reference.GetReference(w.kinds, related); err != nil {
			return nil, fmt.Errorf("event %s: %s: what it is related to: %w", reason, note, err)
		}
	}
	return event, nil
}

// run writes events until ctx ends.
func (w *eventWriter) run(ctx context.Context) {
	defer context.AfterFunc(ctx, w.queue.ShutDown)()
	for {
		key, done := w.queue.Get()
		if done {
			return
		}
		w.write(ctx, key)
		w.queue.Done(key)
	}
}

// write writes the waiting event about a subject, if there is one. If the API server does not answer, it is retried.
func (w *eventWriter) write(ctx context.Context, key about) {
	event := w.take(key)
	if event == nil {
		return
	}
	_, err := w.client.Events(event.Namespace).Create(ctx, event, metav1.CreateOptions{})
	if ctx.Err() != nil {
		return // the next leader reports what is still true
	}
	if err != nil && !isRefused(err) {
		w.keep(key, event, err)
		w.queue.AddRateLimited(key)
		return
	}
	if err != nil {
		w.log.WithError(err).Warnf("kubernetes: event %s is not written: %s", key, event.Note)
	}
	w.answered()
	w.queue.Forget(key)
	w.queue.AddAfter(key, w.every)
}

// take returns the waiting event; without one, the next event need not wait.
func (w *eventWriter) take(key about) *eventsv1.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	event := w.waiting[key]
	if event == nil {
		delete(w.waiting, key)
	} else {
		w.waiting[key] = nil
	}
	return event
}

// keep queues an event again that could not be written, unless there is a newer one about the same subject.
func (w *eventWriter) keep(key about, event *eventsv1.Event, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outage.since.IsZero() {
		w.outage.since = time.Now()
		w.log.WithError(cause).Warnf("kubernetes: event %s is not written: %s; it is tried again, as are others, until the API server answers", key, event.Note)
	}
	if w.waiting[key] == nil {
		w.waiting[key] = event
	} else {
		w.outage.replaced++
	}
}

// answered records that the API server has accepted or refused an event.
func (w *eventWriter) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outage.since.IsZero() {
		return
	}
	w.log.WithFields(logrus.Fields{"after": time.Since(w.outage.since).Round(time.Millisecond), "replaced": w.outage.replaced}).
		Info("kubernetes: the API server answers to events again; of those that waited the last words for a reason are told")
	w.outage = outage{}
}

// isRefused reports whether the API server would refuse an event again: the event is invalid, its namespace is
// terminating, or netmaster lacks the permission.
func isRefused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}
