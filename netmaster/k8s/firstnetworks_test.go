package k8s

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/test/testkit"
)

// modelled has the model's objects that a controller has created.
type modelled struct{ networks []contivmodel.Network }

func (m *modelled) FirstNetworks(_ context.Context, networks ...*contivmodel.Network) (bool, error) {
	for _, n := range networks {
		m.networks = append(m.networks, *n)
	}
	return true, nil
}

func serviceCIDR(ranges ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: ranges}}
}

func kubeadm(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kubeadm-config"}, Data: map[string]string{"ClusterConfiguration": text}}
}

func node(name, address string, podCIDRs ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: podCIDRs},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}}}
}

func TestANewClusterGetsItsNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		api       []runtime.Object
		podRanges string
		want      string // subnets of the pods' network
		refusal   string
	}{
		"nothing but services": {api: []runtime.Object{serviceCIDR("10.96.0.0/16")}, want: "10.128.0.0/14 10.128.0.1  "},
		"IPv6 only":            {api: []runtime.Object{serviceCIDR("fd96::/112")}, want: "  fd00:10:128::/64 fd00:10:128::1"},
		"told": {api: []runtime.Object{serviceCIDR("10.96.0.0/16", "fd96::/112"), kubeadm("networking: {podSubnet: 10.7.0.0/16}")},
			podRanges: "10.6.0.0/16,fd06::/64", want: "10.6.0.0/16 10.6.0.1 fd06::/64 fd06::1"},
		"kubeadm": {api: []runtime.Object{serviceCIDR("10.96.0.0/16"), kubeadm("networking: {podSubnet: '10.7.0.0/16,fd07::/56'}"), node("n1", "192.0.2.1", "10.8.0.0/24")},
			want: "10.7.0.0/16 10.7.0.1  "},
		"nodes":    {api: []runtime.Object{serviceCIDR("10.96.0.0/16"), node("n1", "192.0.2.1", "10.8.0.0/24"), node("n2", "192.0.2.2", "10.8.1.0/24")}, want: "10.8.0.0/23 10.8.0.1  "},
		"one node": {api: []runtime.Object{serviceCIDR("10.96.0.0/16"), node("n1", "192.0.2.1", "10.8.0.0/24")}, want: "10.128.0.0/14 10.128.0.1  "},
		"nonsense": {api: []runtime.Object{serviceCIDR("10.96.0.0/16"), kubeadm("networking: {podSubnet: here}")}, refusal: `podSubnet "here"`},
		"overlap":  {api: []runtime.Object{serviceCIDR("10.96.0.0/16"), node("n1", "10.129.0.1")}, refusal: "default range of pods 10.128.0.0/14 overlaps address of node n1 10.129.0.1/32"},
		"private":  {api: []runtime.Object{serviceCIDR("10.96.0.0/16")}, podRanges: "172.16.0.0/12", refusal: "--cluster-cidr 172.16.0.0/12 overlaps private subnet 172.19.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, client: fake.NewClientset(c.api...), ledger: storetest.Lead(t, storetest.Open(t))}
			w.put(&contivmodel.Tenant{TenantName: "default"}, &contivmodel.Global{Name: "global", FwdMode: "routing", PvtSubnet: "172.19.0.0/16"})
			podRanges, err := ParseRanges(c.podRanges)
			w.must(podRanges, err)
			made := &modelled{}
			err = New(Config{Client: w.client, PodRanges: podRanges, Model: made, Log: testkit.Quiet()}, w.ledger).firstNetworks(t.Context())
			if c.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), c.refusal) || len(made.networks) > 0 {
					t.Errorf("%v, %v, want %q", err, made.networks, c.refusal)
				}
				return
			}
			if err != nil || len(made.networks) != 2 {
				t.Fatalf("%v, %v", err, made.networks)
			}
			pods, nodes := made.networks[0], made.networks[1]
			if got := strings.Join([]string{pods.Subnet, pods.Gateway, pods.Ipv6Subnet, pods.Ipv6Gateway}, " "); got != c.want {
				t.Errorf("pods in %q, want %q", got, c.want)
			}
			pods.Subnet, pods.Gateway, pods.Ipv6Subnet, pods.Ipv6Gateway = "", "", "", ""
			if diff := cmp.Diff(contivmodel.Network{TenantName: "default", NetworkName: "default-net", Encap: "vxlan"}, pods); diff != "" {
				t.Error(diff)
			}
			if nodes.NetworkName != "contivh1" || nodes.NwType != "infra" || (nodes.Subnet == "") != (pods.Subnet == "" && strings.HasPrefix(c.want, " ")) {
				t.Errorf("nodes in %+v", nodes)
			}
		})
	}
}

func TestANetworkThatIsThereIsLeftAlone(t *testing.T) {
	w := newWorld(t) // has one
	made := &modelled{}
	w.must(nil, New(Config{Client: w.client, Model: made, Log: testkit.Quiet()}, w.ledger).firstNetworks(t.Context()))
	if len(made.networks) > 0 {
		t.Errorf("made %v", made.networks)
	}
}
