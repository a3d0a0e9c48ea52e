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

// warnings are what objects ask for and do not get, as long as that holds. Where pods belong is in
// the pods' records, with why nowhere.
type warnings struct {
	mu    sync.Mutex
	holds map[string]map[string]warning // by object, such as networkpolicy/shop/db, and reason
}

// warning is a message about an object; of some it is not known which one of its name.
type warning struct {
	message string
	uid     types.UID
}

// set notes what is wrong with an object for a reason; an empty message: nothing is any more. news
// tells that there is a message, and another one than before, or about another object of that name. An empty uid says nothing of that.
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

// troubles are the warnings that hold.
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

// warn notes what is wrong with an object that is called key among warnings, and makes an event of
// it once for each new message; an empty message: nothing is wrong.
func (c *Controller) warn(object runtime.Object, key, reason, action, message string) {
	if c.warnings.set(key, uidOfRuntime(object), reason, message) {
		c.event(object, corev1.EventTypeWarning, reason, action, message)
	}
}

// inform makes an event of what an object gets, and somebody should know of, once for each new message. It is no trouble.
func (c *Controller) inform(object runtime.Object, key, reason, action, message string) {
	if c.notes.set(key, uidOfRuntime(object), reason, message) {
		c.event(object, corev1.EventTypeWarning, reason, action, message)
	}
}

// uidOfRuntime is what tells an object from others that have its name; empty: it has none.
func uidOfRuntime(object runtime.Object) types.UID {
	is, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return is.GetUID()
}

// maxNote is the longest text that the API server takes in an event, in bytes.
const maxNote = 1024

// event records an event, of which the API server takes the first part if it is long.
func (c *Controller) event(object runtime.Object, kind, reason, action, note string) {
	c.recorder.Eventf(object, nil, kind, reason, action, "%s", strings.ToValidUTF8(note[:min(len(note), maxNote)], ""))
}
