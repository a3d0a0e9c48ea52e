package k8s

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
)

// An external address that belongs to another object is left out, and an event names the owner.
func TestAServiceTakesNobodysAddresses(t *testing.T) {
	w := newWorld(t)
	w.put(&contivmodel.Global{Name: contivmodel.GlobalName, PvtSubnet: "172.19.0.0/16", FwdMode: "routing"},
		&contivmodel.Network{TenantName: "default", NetworkName: "default-net", Subnet: "10.128.0.0/14", Ipv6Subnet: "fd00:10:128::/64"},
		&contivmodel.Network{TenantName: "default", NetworkName: "some", Subnet: "100.64.1.16-100.64.1.31/24"},
		&contivmodel.Tenant{TenantName: "blue"}, &contivmodel.Network{TenantName: "blue", NetworkName: "lan", Subnet: "198.51.100.0/24"},
		&contivmodel.Network{TenantName: "blue", NetworkName: "outside", Encap: "vlan", Subnet: "198.18.0.0/24"})
	w.must(w.client.NetworkingV1().ServiceCIDRs().Create(t.Context(),
		&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}, metav1.CreateOptions{}))
	w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "192.0.2.1"}}}}, metav1.CreateOptions{}))
	old := func(s *corev1.Service) { // of a removed range
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "203.0.113.1", []string{"203.0.113.1"}
		s.Spec.ExternalIPs = []string{"203.0.113.2"}
	}
	w.service("old", old, "=80")
	taken := []string{"0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "255.255.255.255", "::1", "fe80::1", "ff02::1", "fd63:6f6e:7469:7600::1", "fd63:6f6e:7469:7601::2",
		"10.96.0.10", "192.0.2.1", "10.128.0.2", "100.64.1.20", "fd00:10:128::7", "172.19.0.4", "203.0.113.1", "203.0.113.2", "198.18.0.80"}
	own := []string{"100.64.1.32", "198.51.100.1", "203.0.113.3"}
	w.service("web", func(s *corev1.Service) {
		s.Spec.ExternalIPs = slices.Concat(taken, own)
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {IP: "203.0.113.4"}}
	}, "=80")
	w.service("zoo", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.2", "203.0.113.3"} }, "=81") // other ports
	w.service("aaa", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.4"} }, "=80")                // web has it of a load balancer
	var many []string
	for i := range maxExternal + 1 {
		many = append(many, fmt.Sprint("198.51.100.", 100+i))
	}
	w.service("many", func(s *corev1.Service) { s.Spec.ExternalIPs = many }, "=80")
	w.follow()
	want := map[string]string{
		"old": "[203.0.113.2] []", "web": fmt.Sprint(own, " [203.0.113.4]"), "zoo": "[203.0.113.2 203.0.113.3] []",
		"aaa": "[] []", "many": fmt.Sprint(many[:maxExternal], " []"),
	}
	for name, external := range want {
		w.eventually(func() error {
			return w.ledger.View(func(r ledger.Reader) error {
				s, err := ledger.Read[mastercfg.K8sService](r, mastercfg.K8sServiceKey("default", "shop", name))
				if got := fmt.Sprint(s.External, " ", s.LoadBalancers); err == nil && got != external {
					t.Fatalf("%s has %s, want %s", name, got, external)
				}
				return err
			})
		})
	}
	for _, text := range []string{"10.96.0.10 is in service range kubernetes 10.96.0.0/16", "192.0.2.1 is in addresses of node node1", "203.0.113.1 is an address of service shop/old", "1 of 33 addresses are too many"} {
		w.eventually(func() error {
			list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
			if err == nil && !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool { return e.Reason == "AddressNotServed" && strings.Contains(e.Note, text) }) {
				err = fmt.Errorf("no event says %q: %v", text, list.Items)
			}
			return err
		})
	}
}

// A node may have more addresses than Kubernetes has recorded, and agents do not redirect an address on an
// interface of a machine to the switch, unless a load balancer has assigned it.
func TestWhoseAddressIsOnAnInterfaceIsTold(t *testing.T) {
	w := newWorld(t)
	agent := objdb.Service{ServiceName: mastercfg.AgentService, Hostname: "node1", HostAddr: "192.0.2.1", Port: 9002, Addresses: []string{"203.0.113.7", "2001:db8::7"}}
	registered, err := w.db.Register(t.Context(), time.Minute, agent)
	w.must(nil, err)
	w.eventually(func() error {
		return w.ledger.View(func(r ledger.Reader) error {
			if r.Revision(agent.Key()) == 0 {
				return errors.New("the agent is not registered")
			}
			return nil
		})
	})
	w.service("web", func(s *corev1.Service) {
		s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00:96::7")
		s.Spec.ExternalIPs = []string{"203.0.113.7", "203.0.113.8"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {IP: "203.0.113.9"}, {IP: "2001:db8::7"}}
	}, "=80")
	w.follow()
	w.wantExternal("web", "[203.0.113.7 203.0.113.8] [192.0.2.1 203.0.113.9 2001:db8::7]")
	w.eventually(func() error {
		list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "AddressNotServed" && strings.Contains(e.Note, "203.0.113.7 is an address on an interface of node node1: it serves pods only") &&
				!strings.Contains(e.Note, "192.0.2.1") && !strings.Contains(e.Note, "2001:db8::7") // assigned by a load balancer
		}) {
			err = fmt.Errorf("no event tells: %v", list.Items)
		}
		return err
	})
	w.must(nil, registered.Close(t.Context()))
}

// Agents serve external addresses only of the IP families of the service's cluster addresses: others are left out,
// the event has the remedy, and another service may have the address.
func TestAnExternalAddressIsOfAVersionOfIPThatTheServiceHas(t *testing.T) {
	w := newWorld(t)
	dual := func(s *corev1.Service) { s.Spec.ClusterIPs = append(s.Spec.ClusterIPs, "fd00:96::7") }
	addresses := func(s *corev1.Service) {
		s.Spec.ExternalIPs = []string{"203.0.113.2", "2001:db8::2"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.3"}, {IP: "2001:db8::3"}}
	}
	w.service("aaa", addresses, "=80")
	w.service("six", func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.ExternalIPs = "fd00:96::8", []string{"fd00:96::8"}, []string{"203.0.113.4"}
	}, "=80")
	w.service("web", func(s *corev1.Service) { dual(s); addresses(s) }, "=80")
	w.follow()
	w.wantExternal("aaa", "[203.0.113.2] [203.0.113.3]")
	w.wantExternal("six", "[] []")
	w.wantExternal("web", "[2001:db8::2] [2001:db8::3]")
	const remedy = "make it dual-stack, or use an address of "
	w.toldThat("aaa", "AddressNotServed", "2001:db8::2 is of IPv6, and service shop/aaa has no cluster address of IPv6: "+remedy+"IPv4; 2001:db8::3 is of IPv6")
	w.toldThat("six", "AddressNotServed", "203.0.113.4 is of IPv4, and service shop/six has no cluster address of IPv4: "+remedy+"IPv6")
	w.toldThat("aaa", "ExternalIPUsed", "externalIPs lead 203.0.113.2 here")
	w.service("aaa", func(s *corev1.Service) { dual(s); addresses(s) }, "=80") // from now on they are its own
	w.wantExternal("aaa", "[203.0.113.2 2001:db8::2] [203.0.113.3 2001:db8::3]")
}

// An operator may disable externalIPs. The flag of the leader applies, also if the previous leader had another
// one; addresses of load balancers are not affected.
func TestExternalIPsAreServedIfTheOperatorLetsThem(t *testing.T) {
	w := newWorld(t)
	w.service("aaa", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.2", "203.0.113.3"} }, "=80")
	w.service("web", func(s *corev1.Service) {
		s.Spec.ExternalIPs = []string{"203.0.113.4"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.4"}}
	}, "=80")
	stop := w.follow()
	w.wantExternal("aaa", "[203.0.113.2 203.0.113.3] []")
	w.wantExternal("web", "[203.0.113.4] [203.0.113.4]")
	stop()
	c := w.controller()
	c.cfg.NoExternalIPs = true
	stop = w.run(c)
	w.wantExternal("aaa", "[] []")
	w.wantExternal("web", "[] [203.0.113.4]")
	w.toldThat("aaa", "ExternalIPsOff", "externalIPs are switched off in this cluster, and 203.0.113.2 and 1 more lead nowhere: use a service of type LoadBalancer, or node ports; "+
		"an operator can allow them (netmaster --k8s-external-ips)")
	w.toldThat("web", "ExternalIPsOff", "externalIPs are switched off in this cluster, and 203.0.113.4 leads nowhere")
	w.service("zoo", func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.3"}}
	}, "=80")
	w.wantExternal("zoo", "[] [203.0.113.3]")
	stop()
	w.follow()
	w.wantExternal("aaa", "[203.0.113.2] []") // by now the other one is of a load balancer
	w.wantExternal("web", "[203.0.113.4] [203.0.113.4]")
}

// wantExternal waits until a service has these externalIPs and load balancer addresses.
func (w *world) wantExternal(name, want string) {
	w.Helper()
	w.eventually(func() error {
		return w.ledger.View(func(r ledger.Reader) error {
			s, err := ledger.Read[mastercfg.K8sService](r, mastercfg.K8sServiceKey("default", "shop", name))
			if got := fmt.Sprint(s.External, " ", s.LoadBalancers); err == nil && got != want {
				err = fmt.Errorf("%s has %s, want %s", name, got, want)
			}
			return err
		})
	})
}

// An object may hold some hundred thousand addresses. Other services are still served soon: a busy machine has
// three attempts.
func TestAServiceWithVeryManyAddressesHoldsUpNobody(t *testing.T) {
	const soon, tries = 5 * time.Second, 3
	best := time.Duration(math.MaxInt64)
	for try := 1; try <= tries && best > soon; try++ {
		t.Run(fmt.Sprint("try ", try), func(t *testing.T) { best = min(best, servedBesideMany(t)) })
	}
	if best > soon {
		t.Errorf("it took %v", best)
	}
}

// servedBesideMany returns the time until a service beside one with very many addresses is served.
func servedBesideMany(t *testing.T) time.Duration {
	w := newWorld(t)
	many := make([]string, 100_000)
	for i := range many {
		many[i] = fmt.Sprintf("198.%d.%d.%d", 18+i>>16, i>>8&255, i&255)
	}
	w.service("many", func(s *corev1.Service) { s.Spec.ExternalIPs = many }, "=80")
	w.service("web", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.2"} }, "=80")
	w.follow()
	begin := time.Now()
	w.wantServices("default/shop/many", "default/shop/web")
	took := time.Since(begin)
	if n := w.told("many", "AddressNotServed"); n != 1 {
		t.Errorf("%d events tell of it", n)
	}
	return took
}

// A load balancer without addresses of its own gives a service those of nodes, internal and external ones. They
// are recorded separately, as agents must leave their other ports to the nodes; a service cannot claim them by
// itself, and of two with one port one gets it.
func TestAddressesOfNodesThatALoadBalancerGivesAreNotedAsSuch(t *testing.T) {
	w := newWorld(t)
	w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeExternalIP, Address: "203.0.113.1"}, {Type: corev1.NodeHostName, Address: "node1"}}}}, metav1.CreateOptions{}))
	given := func(addresses ...string) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.ExternalIPs = []string{"192.0.2.1"}
			for _, a := range addresses {
				s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: a})
			}
		}
	}
	w.service("web", given("203.0.113.1", "203.0.113.9", "192.0.2.1"), "=80")
	w.service("other", given("192.0.2.1"), "=443")
	w.service("zoo", given("192.0.2.1"), "=80") // web has it
	w.follow()
	for name, want := range map[string]string{"web": "[] [203.0.113.9] [192.0.2.1 203.0.113.1]", "other": "[] [] [192.0.2.1]", "zoo": "[] [] []"} {
		w.eventually(func() error {
			return w.ledger.View(func(r ledger.Reader) error {
				s, err := ledger.Read[mastercfg.K8sService](r, mastercfg.K8sServiceKey("default", "shop", name))
				if got := fmt.Sprint(s.External, " ", s.LoadBalancers, " ", s.AtNodes); err == nil && got != want {
					err = fmt.Errorf("%s has %s, want %s", name, got, want)
				}
				return err
			})
		})
	}
	w.toldThat("web", "AddressNotServed", "192.0.2.1 is in addresses of node node1 192.0.2.1/32; use another address")
	w.toldThat("zoo", "AddressNotServed", "192.0.2.1 is an address of service shop/web; use another address")
	w.wantExternal("web", "[] [203.0.113.9]")
	begun := time.Now()
	w.must(w.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node2"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeExternalIP, Address: "203.0.113.9"}}}}, metav1.CreateOptions{}))
	w.wantExternal("web", "[] []")
	if took := time.Since(begun); took > externalAgain/2 {
		t.Errorf("a new node's address is the service's as a whole for %v", took)
	}
}
