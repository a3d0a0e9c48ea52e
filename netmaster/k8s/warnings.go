package k8s

import (
	"cmp"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// warnings are refused requests of objects, as long as they apply.
// Those about the place of a pod are in the pod's record instead.
type warnings struct {
	mu    sync.Mutex
	holds map[string]map[string]warning // by object, such as networkpolicy/shop/db, and reason
}

// warning is a message about an object; the uid of some is unknown.
type warning struct {
	message string
	uid     types.UID
}

// set sets the message about an object for a reason; empty: the problem is solved. news reports whether the
// message is new, has changed, or is about another object with the same name. An empty uid matches any.
func (w *warnings) set(object string, uid types.UID, reason, message string) (news bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.holds[object][reason]
	if message == "" {
		if delete(w.holds[object], reason); len(w.holds[object]) == 0 {
			delete(w.holds, object)
		}
		return false
	}
	if w.holds == nil {
		w.holds = map[string]map[string]warning{}
	}
	if w.holds[object] == nil {
		w.holds[object] = map[string]warning{}
	}
	w.holds[object][reason] = warning{message, cmp.Or(uid, before.uid)}
	return message != before.message || uid != "" && before.uid != "" && uid != before.uid
}

// clear drops the warning of an object.
func (w *warnings) clear(object string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.holds, object)
}

// troubles returns all warnings.
func (w *warnings) troubles() (all []Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for object, messages := range w.holds {
		kind, name, _ := strings.Cut(object, "/")
		for reason, warning := range messages {
			all = append(all, Trouble{kind + " " + name, reason, warning.message})
		}
	}
	return all
}

// warn sets the message about an object whose warnings have this
// key, and writes an event for each new message; empty: no problem.
func (c *Controller) warn(object runtime.Object, key, reason, action, message string) {
	if c.warnings.set(key, uidOfRuntime(object), reason, message) {
		c.event(object, corev1.EventTypeWarning, reason, action, message)
	}
}

// inform writes an event once for each new message about what is served that is not a problem.
func (c *Controller) inform(object runtime.Object, key, reason, message string) {
	if c.notes.set(key, uidOfRuntime(object), reason, message) {
		c.event(object, corev1.EventTypeWarning, reason, "Serve", message)
	}
}

// uidOfRuntime returns the UID of an object; empty: it has none.
func uidOfRuntime(object runtime.Object) types.UID {
	is, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return is.GetUID()
}

// maxNote is the longest text of an event that the API server accepts, in bytes.
const maxNote = 1024

// event writes an event; a long text is cut.
func (c *Controller) event(object runtime.Object, kind, reason, action, note string) {
	c.recorder.Eventf(object, nil, kind, reason, action, "%s", strings.ToValidUTF8(note[:min(len(note), maxNote)], ""))
}
