package k8s

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
)

// A static pod that has started without a mirror pod stays in its network, whatever its namespace says, and gets
// its class at last. That it belongs elsewhere is reported.
func TestAStaticPodStaysWhereItHasStarted(t *testing.T) {
	w := newWorld(t)
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		network := mastercfg.CfgNetworkState{ID: "default-net.default", Tenant: "default", NetworkName: "default-net"}
		if err := resources.InitNetwork(&network, "10.1.0.0/16", ""); err != nil {
			return err
		}
		return errors.Join(
			ledger.Write(tx, mastercfg.NetworkPrefix+network.ID, network),
			ledger.Write(tx, mastercfg.EndpointPrefix+"default-net.default-c0", mastercfg.CfgEndpointState{NetID: "default-net.default", HomingHost: "node1",
				EPCommonName: "agent", PodNamespace: "lot", PodUID: "a0"}),
			ledger.Write(tx, mastercfg.EndpointPrefix+"default-net.default-c5", mastercfg.CfgEndpointState{NetID: "default-net.default", IPAddress: "10.1.0.9", HomingHost: "node1",
				EPCommonName: "proxy", PodNamespace: "lot", PodUID: "a5"}),
		)
	}))
	w.put(&contivmodel.Network{TenantName: "default", NetworkName: "default-net", Subnet: "10.1.0.0/16"})
	w.namespace("lot", map[string]string{mastercfg.TenantLabel: "blue"})
	create := func(name, hash string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "8c0e6f5a-7b34-4f3e-9d0c-6a1f2e3d4c5b", Annotations: map[string]string{
			hashAnnotation: hash, mirrorAnnotation: hash, mastercfg.IPv4Annotation: "10.1.0.9"}}, Spec: corev1.PodSpec{NodeName: "node1"}}
		w.must(w.client.CoreV1().Pods("lot").Create(t.Context(), pod, metav1.CreateOptions{}))
	}
	create("proxy", "a5")
	create("other", "a0") // another pod has its UID
	w.follow()
	w.want(map[string]string{"node1/a5": "default/default-net/", "node1/a0": "TenantNotFound"})
	w.eventually(func() error {
		return w.ledger.View(func(r ledger.Reader) error {
			p, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", "a5"))
			if err == nil && (!p.Classed || !strings.Contains(p.Later, "is in network default-net of tenant default, and belongs into network default-net of tenant blue") || p.IPv4.String() != "10.1.0.9") {
				err = fmt.Errorf("%+v", p)
			}
			return err
		})
	})
}
