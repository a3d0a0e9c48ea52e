package k8s

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// kubelet gives a force-deleted pod, which is no longer in the API server, the grace period of its spec. A static
// pod does not end with its mirror pod.
func TestARecordSaysHowLongItsPodMayTakeToEnd(t *testing.T) {
	w, hash := newWorld(t), strings.Repeat("c", 32)
	seconds := func(n int64) *int64 { return &n }
	w.pod("plain", "u1", "node1", nil)
	w.pod("long", "u2", "node1", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = seconds(3600) })
	w.pod("none", "u3", "node1", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = seconds(0) })
	w.pod("ends", "u4", "node1", func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds = seconds(30), seconds(90)
	})
	w.pod("forced", "u5", "node1", func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds, p.DeletionGracePeriodSeconds = seconds(60), seconds(0)
	})
	w.pod("static-node1", "u6", "node1", func(p *corev1.Pod) {
		p.Annotations = map[string]string{hashAnnotation: hash, mirrorAnnotation: hash}
	})
	w.follow()
	want := map[string]int64{"u1": 30, "u2": 3600, "u3": 1, "u4": 90, "u5": 60, hash: 0}
	w.eventually(func() error {
		return w.ledger.View(func(r ledger.Reader) error {
			for uid, grace := range want {
				if record, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", uid)); err != nil || record.Grace != grace {
					return fmt.Errorf("pod %s: %d (%v), want %d", uid, record.Grace, err, grace)
				}
			}
			return nil
		})
	})
}
