package k8s

import (
	"strings"
	"time"
)

// maxOfNamespace is how many backends the services of a namespace have noted together: who may make services and slices in one is not to fill the
// store with them.
const maxOfNamespace = 2 * maxBackends

// shareAgain is when a service that has backends beyond its room is looked at again: others of its namespace may have fewer then.
const shareAgain = time.Minute

// shares are how many backends services have noted, by namespace and namespace/name. What is noted already, for whichever tenant, counts when a
// leader begins, so that none takes the room of another then.
type shares map[string]map[string]int

// noteBackend counts a backend that a service has in the store.
func (b *balancer) noteBackend(namespace, service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shares[namespace] == nil {
		b.shares[namespace] = map[string]int{}
	}
	b.shares[namespace][service]++
}

// roomFor is how many backends a service may have noted beside the others of its namespace.
func (b *balancer) roomFor(service string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	namespace, _, _ := strings.Cut(service, "/")
	room := maxOfNamespace
	for other, n := range b.shares[namespace] {
		if other != service {
			room -= n
		}
	}
	return max(0, min(room, maxBackends))
}

// takeShare notes how many backends a service has; none: it needs no room.
func (b *balancer) takeShare(service string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	namespace, _, _ := strings.Cut(service, "/")
	if n == 0 {
		if delete(b.shares[namespace], service); len(b.shares[namespace]) == 0 {
			delete(b.shares, namespace)
		}
		return
	}
	if b.shares[namespace] == nil {
		b.shares[namespace] = map[string]int{}
	}
	b.shares[namespace][service] = n
}
