package k8s

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/contivmodel"
)

// A ServiceCIDR may be added at any time, also one with addresses of nodes, networks or the switches.
func TestAServiceCIDRWithAddressesOfOthersIsToldOf(t *testing.T) {
	w := newWorld(t)
	w.put(&contivmodel.Global{Name: contivmodel.GlobalName, PvtSubnet: "172.19.0.0/16"},
		&contivmodel.Network{TenantName: "default", NetworkName: "default-net", Subnet: "10.128.0.0/14"},
		&contivmodel.Tenant{TenantName: "blue"}, &contivmodel.Network{TenantName: "blue", NetworkName: "lan", Subnet: "10.64.0.0/24"}) // without services
	w.node("node1", "192.0.2.1")
	c := w.controller()
	w.run(c)
	const remedy = ": pods and nodes reach only one of both; delete the ServiceCIDR, and make one of addresses that nobody has"

	w.serviceRanges("well", "10.96.0.0/16", "10.64.0.0/16")
	w.serviceRanges("pods", "10.129.0.0/16")
	w.toldOfRange("pods", "10.129.0.0/16 overlaps network default-net of tenant default 10.128.0.0/14"+remedy)
	w.wantTroubles(c, []string{}...) // the status reports networks

	w.serviceRanges("private", "172.16.0.0/12")
	w.toldOfRange("private", "172.16.0.0/12 overlaps private subnet 172.19.0.0/16"+remedy)
	w.serviceRanges("nodes", "192.0.2.0/24", "198.51.100.0/24")
	w.toldOfRange("nodes", "192.0.2.0/24 overlaps addresses of node node1 192.0.2.1/32"+remedy)
	w.node("node2", "198.51.100.7")
	w.toldOfRange("nodes", "192.0.2.0/24 overlaps addresses of node node1 192.0.2.1/32; 198.51.100.0/24 overlaps addresses of node node2 198.51.100.7/32"+remedy)
	w.wantTroubles(c, "servicecidr nodes RangesOverlap", "servicecidr private RangesOverlap")

	w.must(nil, w.client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "private", metav1.DeleteOptions{}))
	for _, name := range []string{"node1", "node2"} {
		w.must(nil, w.client.CoreV1().Nodes().Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	w.wantTroubles(c, []string{}...)
}

func (w *world) node(name, address string) {
	w.Helper()
	w.must(w.client.CoreV1().Nodes().Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}}}, metav1.CreateOptions{}))
}

func (w *world) serviceRanges(name string, ranges ...string) {
	w.Helper()
	w.must(w.client.NetworkingV1().ServiceCIDRs().Create(w.Context(), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges}}, metav1.CreateOptions{}))
}

// toldOfRange waits for an event of a ServiceCIDR, and fails if there is one of a valid one.
func (w *world) toldOfRange(name, note string) {
	w.Helper()
	w.eventually(func() error {
		list, err := w.client.EventsV1().Events(metav1.NamespaceDefault).List(w.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var got []string
		told := false
		for _, e := range list.Items {
			got = append(got, e.Regarding.Kind+" "+e.Regarding.Name+" "+e.Reason+": "+e.Note)
			told = told || got[len(got)-1] == "ServiceCIDR "+name+" RangesOverlap: "+note
			if e.Regarding.Name == "well" {
				err = errors.New("an event of a range that is nobody else's")
			}
		}
		if !told {
			err = fmt.Errorf("no event of %s: %s; there are %q", name, note, got)
		}
		return err
	})
}
