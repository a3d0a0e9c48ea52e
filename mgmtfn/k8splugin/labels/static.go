package labels

import (
	"maps"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// A static pod is one that kubelet has from a file or from a server of its own. It tells the API server of it, by a mirror
// pod, which netmaster places as any other. While there is none, because the API server is away, the pod's own annotations say
// where it belongs; what its namespace says is not known. Until the mirror pod is there, no policy knows the pod: it is isolated.
// A mirror pod may only be late, as after a boot or a change of the leader, and the pod stays where it has started: so it is
// tried for a while.

// hashAnnotation is where kubelet puts the UID of a static pod: a hash.
const hashAnnotation = "kubernetes.io/config.hash"

// isStatic tells whether a pod is static. The UIDs that an API server gives have hyphens, so what a user writes into
// annotations of other pods makes none of them static.
func isStatic(uid string, annotations map[string]string) bool {
	return uid != "" && uid == annotations[hashAnnotation] && strings.Trim(uid, "0123456789abcdef") == ""
}

// A static pod has no mirror pod if there is none staticTime after the first attempt to start it. An attempt that is the
// first for staticRest begins anew: kubelet tries about every 15 seconds.
const (
	staticTime = time.Minute
	staticRest = 2 * time.Minute
)

// mirrorless are the static pods that were not placed yet when they were to start.
type mirrorless struct {
	mu   sync.Mutex
	pods map[string]attempts // by UID
}

// attempts are the first and the last to start a pod.
type attempts struct{ first, last time.Time }

// tried notes an attempt, and tells whether there were others for long enough.
func (m *mirrorless) tried(uid string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.pods, func(_ string, a attempts) bool { return now.Sub(a.last) > staticRest })
	if m.pods == nil {
		m.pods = map[string]attempts{}
	}
	a := attempts{now, now}
	if before, again := m.pods[uid]; again {
		a.first = before.first
	}
	m.pods[uid] = a
	return now.Sub(a.first) >= staticTime
}

// withoutMirror is where a static pod belongs by itself.
func withoutMirror(uid string, annotations map[string]string) (Identity, error) {
	at := resolve(&netconf.Conf{}, func(label string) string { return annotations[label] })
	at.PodUID = uid
	for _, one := range []struct {
		annotation string
		address    *netip.Addr
	}{{mastercfg.IPv4Annotation, &at.IPv4}, {mastercfg.IPv6Annotation, &at.IPv6}} {
		text := annotations[one.annotation]
		if text == "" {
			continue
		}
		var err error
		if *one.address, err = netip.ParseAddr(text); err != nil {
			return Identity{}, fault.New(fault.Invalid, "annotation %s of static pod %s: %w", one.annotation, uid, err)
		}
	}
	return at, nil
}
