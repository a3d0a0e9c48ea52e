package k8s

import (
	"sync"
	"time"
)

// eventRepeat is the time after which the event of a refusal that still holds is repeated: the API server deletes events after
// --event-ttl, by default an hour.
const eventRepeat = 50 * time.Minute

// refusalEvents has the times of this leader's latest event about each refused pod, by namespace/name. Events
// of former leaders are unknown.
type refusalEvents struct {
	mu sync.Mutex
	at map[string]time.Time
}

// due reports whether to write an event about a refused pod, and records the time if so: the refusal is new or
// has changed (news), or the last event is eventRepeat ago.
func (t *refusalEvents) due(pod string, now time.Time, news bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, told := t.at[pod]; told && !news && now.Sub(last) < eventRepeat {
		return false
	}
	if t.at == nil {
		t.at = map[string]time.Time{}
	}
	t.at[pod] = now
	return true
}

// forget drops a pod that is not refused any more.
func (t *refusalEvents) forget(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.at, pod)
}
