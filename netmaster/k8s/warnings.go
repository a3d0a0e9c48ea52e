package k8s

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
)

// warnings records events, and remembers the warnings among them as long as they hold. Those of
// pods are in the pods' records.
type warnings struct {
	events.EventRecorder

	mu   sync.Mutex
	told map[string]map[string]string // reason -> message, by object: networkpolicy/shop/db
}

// Eventf records an event.
func (w *warnings) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	w.EventRecorder.Eventf(regarding, related, eventType, reason, action, note, args...)
	name, err := cache.MetaNamespaceKeyFunc(regarding)
	if _, isPod := regarding.(*corev1.Pod); isPod || err != nil || eventType != corev1.EventTypeWarning {
		return
	}
	object := strings.ToLower(reflect.TypeOf(regarding).Elem().Name()) + "/" + name
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		w.told = map[string]map[string]string{}
	}
	if w.told[object] == nil {
		w.told[object] = map[string]string{}
	}
	w.told[object][reason] = fmt.Sprintf(note, args...)
}

// over forgets what was said about an object, for some reasons or, without any, for all.
func (w *warnings) over(object string, reasons ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, reason := range reasons {
		delete(w.told[object], reason)
	}
	if len(reasons) == 0 || len(w.told[object]) == 0 {
		delete(w.told, object)
	}
}

// troubles are the warnings that hold.
func (w *warnings) troubles() (all []Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for object, reasons := range w.told {
		kind, name, _ := strings.Cut(object, "/")
		for reason, message := range reasons {
			all = append(all, Trouble{kind + " " + name, reason, message})
		}
	}
	return all
}
