package k8s

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// rated waits until a pod's record has this bandwidth, and whether a later request of the pod is refused.
func (w *world) rated(uid string, ingress, egress int64, later bool) {
	w.Helper()
	w.eventually(func() error {
		return w.ledger.View(func(r ledger.Reader) error {
			p, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", uid))
			if err == nil && (p.Ingress != ingress || p.Egress != egress || later != (p.Later != "")) {
				err = fmt.Errorf("%+v, want %d and %d bit/s, refused later %v", p, ingress, egress, later)
			}
			return err
		})
	})
}

func TestTheBandwidthOfAPodIsWhatItsAnnotationsSayNow(t *testing.T) {
	w := newWorld(t)
	w.follow()
	says := func(ingress, egress string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Annotations = map[string]string{ingressAnnotation: ingress, egressAnnotation: egress}
		}
	}
	w.pod("web", "u0", "node1", says("10M", ""))
	w.rated("u0", 10_000_000, 0, false)
	w.change("web", says("1Ki", "1P"))
	w.rated("u0", 1024, 1_000_000_000_000_000, false)
	for _, bad := range []string{"999", "2P", "-1M", "fast", "1e99999", "1e1000000000", "1e-1000000000", "1e999999999", "99999999999999999999M"} {
		w.change("web", says(bad, "1M"))
		w.rated("u0", 1024, 1_000_000_000_000_000, true)
		w.change("web", says("1Ki", "1P"))
		w.rated("u0", 1024, 1_000_000_000_000_000, false)
	}
	w.told("web", "BandwidthInvalid")
	w.change("web", func(p *corev1.Pod) { p.Annotations = nil })
	w.rated("u0", 0, 0, false)
	w.pod("bad", "u1", "node1", says("0", ""))
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/u1": "BandwidthInvalid"})
}
