package k8s

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

func TestAPodHasTheProfileThatItOrItsNamespaceNames(t *testing.T) {
	w := newWorld(t)
	w.put(&contivmodel.Netprofile{TenantName: "default", ProfileName: "gold", Bandwidth: "10Mbps", DSCP: 46, Burst: 20},
		&contivmodel.Netprofile{TenantName: "default", ProfileName: "silver", Bandwidth: "1Mbps"})
	w.namespace("lot", map[string]string{mastercfg.ProfileAnnotation: "silver"})
	w.follow()
	names := func(profile string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{mastercfg.ProfileAnnotation: profile} }
	}
	has := func(uid string, want mastercfg.K8sProfile, later bool) {
		t.Helper()
		w.eventually(func() error {
			return w.ledger.View(func(r ledger.Reader) error {
				p, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", uid))
				if err == nil && (p.Profile != want || later != (p.Later != "")) {
					err = fmt.Errorf("%+v, want profile %+v, refused later %v", p, want, later)
				}
				return err
			})
		})
	}
	gold, silver := mastercfg.K8sProfile{Name: "gold", Bandwidth: "10Mbps", DSCP: 46, Burst: 20}, mastercfg.K8sProfile{Name: "silver", Bandwidth: "1Mbps"}
	w.pod("web", "u0", "node1", names("gold"))
	has("u0", gold, false)
	w.change("web", names("silver"))
	has("u0", silver, false)
	w.change("web", names("brass"))
	has("u0", silver, true) // it keeps what it had
	w.told("web", "ProfileNotFound")
	w.change("web", names(""))
	has("u0", mastercfg.K8sProfile{}, false)
	w.pod("bad", "u1", "node1", names("brass"))
	w.pod("odd", "u2", "node1", names("a/b"))
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/u1": "ProfileNotFound", "node1/u2": "InvalidName"})
	w.must(w.client.CoreV1().Pods("lot").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "u3"}, Spec: corev1.PodSpec{NodeName: "node1"}}, metav1.CreateOptions{}))
	has("u3", silver, false)
}
