package k8s

import (
	"sync"
	"time"
)

// toldAgain is how long after it was told a refusal that still holds is told again: the API server drops events after an hour,
// unless --event-ttl says otherwise.
const toldAgain = 50 * time.Minute

// tellings are when this leader has told of pods that they are refused, by namespace/name. What leaders before have told, or have not
// come to tell, it does not know.
type tellings struct {
	mu sync.Mutex
	at map[string]time.Time
}

// due notes that a refusal of a pod is told now, if news says so, or if it is not told, or was long ago; else false.
func (t *tellings) due(pod string, now time.Time, news bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if last, told := t.at[pod]; told && !news && now.Sub(last) < toldAgain {
		return false
	}
	if t.at == nil {
		t.at = map[string]time.Time{}
	}
	t.at[pod] = now
	return true
}

// forget drops a pod that is not refused any more.
func (t *tellings) forget(pod string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.at, pod)
}
