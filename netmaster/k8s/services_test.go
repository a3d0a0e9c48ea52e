package k8s

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// service creates or updates a service of namespace shop with ports "name=number".
func (w *world) service(name string, change func(*corev1.Service), ports ...string) {
	w.Helper()
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}}}
	for _, p := range ports {
		name, number, _ := strings.Cut(p, "=")
		port := corev1.ServicePort{Name: name, Protocol: corev1.ProtocolTCP}
		fmt.Sscan(number, &port.Port)
		s.Spec.Ports = append(s.Spec.Ports, port)
	}
	if change != nil {
		change(s)
	}
	_, err := w.client.CoreV1().Services("shop").Update(w.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		_, err = w.client.CoreV1().Services("shop").Create(w.Context(), s, metav1.CreateOptions{})
	}
	w.must(nil, err)
}

// slice creates or updates a slice of a service, with one port; members are "address", "address uid" or "address
// uid node".
func (w *world) slice(name, service, port string, number int32, change func(*discoveryv1.EndpointSlice), members ...string) {
	w.Helper()
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &port, Port: &number}},
	}
	for _, m := range members {
		words := append(strings.Fields(m), "", "")
		e := discoveryv1.Endpoint{Addresses: words[:1]}
		if words[1] != "" {
			e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "pod-" + words[1], UID: types.UID(words[1])}
			e.NodeName = &words[2]
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	if change != nil {
		change(s)
	}
	_, err := w.client.DiscoveryV1().EndpointSlices("shop").Update(w.Context(), s, metav1.UpdateOptions{})
	if err != nil {
		_, err = w.client.DiscoveryV1().EndpointSlices("shop").Create(w.Context(), s, metav1.CreateOptions{})
	}
	w.must(nil, err)
}

// wantServices waits until these are the keys of services and backends, without their prefixes.
func (w *world) wantServices(want ...string) {
	w.Helper()
	w.eventually(func() error {
		var got []string
		err := w.ledger.View(func(r ledger.Reader) error {
			for _, prefix := range []string{mastercfg.K8sServicePrefix, mastercfg.K8sBackendPrefix} {
				r.Range(prefix, func(key string, _ []byte) bool {
					got = append(got, strings.TrimPrefix(key, prefix))
					return true
				})
			}
			return nil
		})
		if slices.Sort(want); err == nil && !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			err = fmt.Errorf("keys %q, want %q", got, want)
		}
		return err
	})
}

func TestAServiceIsNotedWithWhoIsBehindIt(t *testing.T) {
	w := newWorld(t)
	w.slice("web-1", "web", "http", 8080, nil, "10.128.0.4", "10.128.0.05") // before its service
	stop := w.follow()
	w.wantServices()
	w.service("web", nil, "http=80", "other=81")
	w.wantServices("default/shop/web", "default/shop/web/http/10.128.0.4:8080", "default/shop/web/http/10.128.0.5:8080")

	w.slice("web-2", "web", "http", 8081, nil, "10.128.0.6") // another number for the same name
	w.slice("web-3", "web", "gone", 8081, nil, "10.128.0.6") // a port that the service does not have
	w.slice("web-4", "web", "other", 0, nil, "10.128.0.6")   // no port
	w.slice("web-5", "web", "http", 8080, func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }, "www.example.org")
	w.slice("web-6", "web", "http", 8080, func(s *discoveryv1.EndpointSlice) { s.Labels[headlessLabel] = "" }, "10.128.0.7")
	w.wantServices("default/shop/web", "default/shop/web/http/10.128.0.4:8080", "default/shop/web/http/10.128.0.5:8080", "default/shop/web/http/10.128.0.6:8081")
	stop()

	w.must(nil, w.client.DiscoveryV1().EndpointSlices("shop").Delete(t.Context(), "web-1", metav1.DeleteOptions{})) // no backends
	stop = w.follow()
	w.wantServices("default/shop/web", "default/shop/web/http/10.128.0.4:8080", "default/shop/web/http/10.128.0.5:8080", "default/shop/web/http/10.128.0.6:8081")
	for _, away := range []func(*corev1.Service){
		func(s *corev1.Service) { s.Labels = map[string]string{proxyLabel: "other"} },
		func(s *corev1.Service) { s.Labels = map[string]string{headlessLabel: ""} },
		func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		func(s *corev1.Service) {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
		},
	} {
		w.service("web", away, "http=80")
		w.wantServices()
		w.service("web", nil, "http=80")
		w.wantServices("default/shop/web", "default/shop/web/http/10.128.0.6:8081")
	}
	stop()
	w.must(nil, w.client.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.follow()
	w.wantServices()
}

// Equal names in two tenants are different services: each tenant has its own pods behind a service, and addresses
// without a tenant are behind all of them.
func TestABackendIsOfItsPodsTenant(t *testing.T) {
	w := newWorld(t)
	w.put(&contivmodel.Tenant{TenantName: "blue"}, &contivmodel.Network{TenantName: "blue", NetworkName: "default-net"})
	w.namespace("open", nil)
	w.must(w.client.CoreV1().Namespaces().Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Annotations: map[string]string{allowedKey: "blue"}}}, metav1.UpdateOptions{}))
	w.pod("web-0", "u0", "node1", nil)
	w.pod("web-1", "u1", "node1", func(p *corev1.Pod) { p.Labels = map[string]string{mastercfg.TenantLabel: "blue"} })
	w.follow()
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/u1": "blue/default-net/"})
	w.service("web", nil, "=80")
	w.slice("web-1", "web", "", 80, nil, "10.128.0.4 u0 node1", "10.128.0.5 u1 node1", "192.0.2.1")
	w.wantServices("default/shop/web", "default/shop/web/-/10.128.0.4:80", "default/shop/web/-/192.0.2.1:80",
		"blue/shop/web", "blue/shop/web/-/10.128.0.5:80", "blue/shop/web/-/192.0.2.1:80")
	w.slice("web-1", "web", "", 80, nil, "10.128.0.4 u0 node1", "10.128.0.6 u2 node1") // u2 is unknown
	w.wantServices("default/shop/web", "default/shop/web/-/10.128.0.4:80", "default/shop/web/-/192.0.2.1:80",
		"blue/shop/web", "blue/shop/web/-/10.128.0.5:80", "blue/shop/web/-/192.0.2.1:80") // a removed backend keeps connections
	// A tenant without pods behind a service that all tenants reach has no service of its own.
	w.slice("all-1", "all", "", 80, nil, "10.128.0.5 u1 node1")
	w.service("all", nil, "=80")
	one := []string{"default/shop/web", "default/shop/web/-/10.128.0.4:80", "default/shop/web/-/192.0.2.1:80",
		"blue/shop/all", "blue/shop/all/-/10.128.0.5:80", "blue/shop/web", "blue/shop/web/-/10.128.0.5:80", "blue/shop/web/-/192.0.2.1:80"}
	w.wantServices(append([]string{"default/shop/all"}, one...)...)
	w.service("all", func(s *corev1.Service) { s.Annotations = map[string]string{mastercfg.SharedAnnotation: "true"} }, "=80")
	// Editing a service does not open it to all tenants, unless its namespace allows that.
	w.told("all", "SharingNotAllowed")
	w.wantServices(append([]string{"default/shop/all"}, one...)...)
	w.must(w.client.CoreV1().Namespaces().Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Annotations: map[string]string{allowedKey: "blue", allowSharedKey: "true"}}}, metav1.UpdateOptions{}))
	w.wantServices(one...)
	// Nor has one whose last pod has left it, though that lives: its pods would be refused what others serve.
	w.slice("all-1", "all", "", 80, nil, "10.128.0.4 u0 node1", "10.128.0.5 u1 node1")
	w.wantServices(append([]string{"default/shop/all", "default/shop/all/-/10.128.0.4:80"}, one...)...)
	w.slice("all-1", "all", "", 80, nil, "10.128.0.5 u1 node1")
	w.wantServices(one...)
}

// The authors of slices in a namespace cannot bring a service into another tenant by naming a pod of another
// namespace. Such a pod in the own tenant is served like an address without a pod.
func TestASliceThatNamesAPodOfAnotherNamespaceStaysInItsTenant(t *testing.T) {
	w := newWorld(t)
	w.put(&contivmodel.Tenant{TenantName: "blue"}, &contivmodel.Network{TenantName: "blue", NetworkName: "default-net"})
	w.namespace("others", map[string]string{mastercfg.TenantLabel: "blue"})
	w.namespace("mesh", nil)
	w.pod("db-0", "u9", "node1", func(p *corev1.Pod) { p.Namespace = "others" })
	w.pod("activator-0", "u8", "node1", func(p *corev1.Pod) { p.Namespace = "mesh" })
	w.pod("web-0", "u0", "node1", nil)
	w.follow()
	w.want(map[string]string{"node1/u0": "default/default-net/", "node1/u8": "default/default-net/", "node1/u9": "blue/default-net/"})
	w.service("web", nil, "=80")
	w.slice("web-1", "web", "", 80, nil, "10.128.0.4 u0 node1", "10.128.0.8 u8 node1", "10.128.0.9 u9 node1")
	w.wantServices("default/shop/web", "default/shop/web/-/10.128.0.4:80", "default/shop/web/-/10.128.0.8:80")
}

// A manually created slice may omit the node of a pod that it names: the pod is served, and is on no node.
func TestABackendWithoutANodeIsServed(t *testing.T) {
	w := newWorld(t)
	w.pod("web-0", "u0", "node1", nil)
	w.pod("web-1", "u1", "node1", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
	w.follow()
	w.want(map[string]string{"node1/u0": "default/default-net/"})
	w.service("web", nil, "=80")
	w.slice("web-1", "web", "", 80, func(s *discoveryv1.EndpointSlice) {
		for i := range s.Endpoints {
			s.Endpoints[i].NodeName = nil
		}
	}, "10.128.0.4 u0", "192.0.2.1 u1")
	w.wantServices("default/shop/web", "default/shop/web/-/10.128.0.4:80", "default/shop/web/-/192.0.2.1:80")
	if b := w.backend("10.128.0.4:80"); b.Node != "" || b.Pod != "u0" {
		t.Errorf("%+v", b)
	}
}

// backend returns a backend of service web in the default tenant at its unnamed port; empty if there is none.
func (w *world) backend(at string) (b mastercfg.K8sBackend) {
	w.Helper()
	w.must(nil, w.ledger.View(func(r ledger.Reader) (err error) {
		b, err = ledger.Read[mastercfg.K8sBackend](r, mastercfg.K8sBackendKey("default", "shop", "web", "", netip.MustParseAddrPort(at)))
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	}))
	return b
}

// An external address is checked again after a minute, which does not delay an earlier check.
func TestAServiceIsLookedAtAgainForTheFirstOfItsReasons(t *testing.T) {
	w := newWorld(t)
	w.service("plain", nil, "=80")
	w.service("waits", nil, "=80")
	external := func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"203.0.113.2"} }
	w.service("external", external, "=80")
	w.service("both", external, "=81")
	w.slice("waits-1", "waits", "", 80, nil, "10.128.0.4 u0 node1") // u0 is unknown
	w.slice("both-1", "both", "", 80, nil, "10.128.0.4 u0 node1")
	c := w.controller()
	c.recorder = events.NewFakeRecorder(10) // for the events about externalIPs
	services := c.reconcilers[slices.IndexFunc(c.reconcilers, func(r *reconciler) bool { return r.kind == "service" })]
	w.must(nil, services.subscribe())
	defer services.queue.ShutDown()
	c.informers.Start(t.Context().Done())
	w.must(nil, c.complete(t.Context()))
	for name, want := range map[string]time.Duration{"plain": 0, "waits": unknownAgain, "external": externalAgain, "both": unknownAgain} {
		if again, err := services.reconcile(t.Context(), "shop/"+name); again != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", name, again, err, want)
		}
	}
}

// A service is in the tenant of its namespace, as long as that is allowed.
func TestAServiceFollowsItsNamespace(t *testing.T) {
	w := newWorld(t)
	w.follow()
	w.service("web", nil, "=80")
	w.slice("web-1", "web", "", 80, nil, "192.0.2.1")
	for _, step := range []struct {
		tenant string
		want   []string
	}{
		{"", []string{"default/shop/web", "default/shop/web/-/192.0.2.1:80"}},
		{"blue", []string{"blue/shop/web", "blue/shop/web/-/192.0.2.1:80"}},
		{"a/b", nil},
	} {
		w.must(w.client.CoreV1().Namespaces().Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
			Annotations: map[string]string{mastercfg.TenantLabel: step.tenant}}}, metav1.UpdateOptions{}))
		w.wantServices(step.want...)
	}
}

// Hosts are served by one tenant's backends: the namespace's tenant, if it has some.
func TestHostsAreServedByOneTenant(t *testing.T) {
	some := []backend{{}}
	for _, c := range []struct {
		of         map[string][]backend
		everywhere []backend
		want       string
	}{
		{map[string][]backend{"home": nil}, nil, "home"},
		{map[string][]backend{"home": some, "blue": some}, nil, "home"},
		{map[string][]backend{"home": nil, "red": some, "blue": some}, nil, "blue"},
		{map[string][]backend{"home": nil, "blue": some}, some, "home"},
	} {
		if got := (tenantBackends{of: c.of, everywhere: c.everywhere}).tenantForHosts("home"); got != c.want {
			t.Errorf("%v: %s, want %s", c.of, got, c.want)
		}
	}
}

func TestAServiceSaysWhatItsFieldsMean(t *testing.T) {
	local, proxy, vip := corev1.ServiceInternalTrafficPolicyLocal, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP
	timeout := int32(60)
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7", "fd00:96::7"},
			ExternalIPs: []string{"198.51.100.2", "198.51.100.01"}, LoadBalancerSourceRanges: []string{" 192.0.2.7/24 ", "nothing"},
			Ports:                 []corev1.ServicePort{{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053}},
			InternalTrafficPolicy: &local, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 30999,
			SessionAffinity: corev1.ServiceAffinityClientIP, SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
			{IP: "203.0.113.9", IPMode: &proxy}, {IP: "203.0.113.8", IPMode: &vip}, {Hostname: "example.org"}, {IP: "203.0.113.7"}}}},
	}
	got, ok := serviceRecord(s)
	want := `{shop web [10.96.0.7 fd00:96::7] [198.51.100.1 198.51.100.2] [203.0.113.7 203.0.113.8] [] [192.0.2.0/24] [{dns UDP 53 30053}] true true 30999 false false 60}`
	if fmt.Sprint(got) != want || !ok {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestACopyOfABackendThatStaysWins(t *testing.T) {
	yes, no, port, name := true, false, int32(80), ""
	slice := func(terminating *bool) any {
		return &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}}, Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.128.0.4"}, Conditions: discoveryv1.EndpointConditions{Terminating: terminating}}}}
	}
	service := mastercfg.K8sService{Ports: []mastercfg.K8sServicePort{{Port: 80}}}
	for _, objects := range [][]any{{slice(&yes), slice(&no)}, {slice(nil), slice(&yes)}} {
		if got, _ := backends(service, objects, maxBackends); len(got) != 1 || got[0].Terminating || !got[0].Ready || !got[0].Serving {
			t.Errorf("%+v", got)
		}
	}
}

// A slice's port is that of a service if name and protocol are equal; the default protocol is TCP.
func TestAPortOfASliceIsFoundByNameAndProtocol(t *testing.T) {
	name, number, udp, tcp := "dns", int32(53), corev1.ProtocolUDP, corev1.ProtocolTCP
	for _, c := range []struct {
		service string
		slice   *corev1.Protocol
		want    int
	}{{"UDP", &udp, 1}, {"TCP", &tcp, 1}, {"TCP", nil, 1}, {"", &tcp, 1}, {"UDP", &tcp, 0}, {"TCP", &udp, 0}, {"UDP", nil, 0}, {"SCTP", &udp, 0}} {
		slice := &discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: c.slice, Port: &number}}, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.128.0.4"}}}}
		service := mastercfg.K8sService{Ports: []mastercfg.K8sServicePort{{Name: name, Protocol: c.service, Port: 53}}}
		if got, _ := backends(service, []any{slice}, maxBackends); len(got) != c.want {
			t.Errorf("a service of %q, a slice of %v: %d backends, want %d", c.service, c.slice, len(got), c.want)
		}
	}
}

// The order of slices in the cache is random. Of several copies of a backend that stay, that of the newest slice
// counts, of equal times the first by name: so the record does not change from check to check.
func TestOfCopiesOfABackendTheNewestWins(t *testing.T) {
	port, number, ready, no := "http", int32(8080), true, false
	node1, node2 := "node1", "node2"
	slice := func(name string, second int64, e discoveryv1.Endpoint) any {
		e.Addresses = []string{"10.128.0.4"}
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)},
			Ports: []discoveryv1.EndpointPort{{Name: &port, Port: &number}}, Endpoints: []discoveryv1.Endpoint{e}}
	}
	service := mastercfg.K8sService{Ports: []mastercfg.K8sServicePort{{Name: port, Port: 80}}}
	old := slice("web-0", 1, discoveryv1.Endpoint{NodeName: &node1})
	newest := slice("web-1", 2, discoveryv1.Endpoint{NodeName: &node2, Conditions: discoveryv1.EndpointConditions{Ready: &no}})
	equal := slice("web-2", 2, discoveryv1.Endpoint{NodeName: &node1, Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}}}})
	leaves := slice("web-3", 3, discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Terminating: &ready}})
	for _, objects := range [][]any{{old, newest, equal, leaves}, {leaves, equal, newest, old}, {equal, old, leaves, newest}} {
		got, _ := backends(service, objects, maxBackends)
		if len(got) != 1 || got[0].Node != node2 || got[0].Ready || got[0].Terminating || got[0].ForZones != nil {
			t.Errorf("%+v", got)
		}
	}
}

// A node without an internal address is known by its external ones, as in kubelet.
func TestANodeIsKnownByItsAddressesInTheCluster(t *testing.T) {
	external := corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.5"}
	internal := corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}
	for want, reported := range map[string][]corev1.NodeAddress{
		"[203.0.113.5]": {external, {Type: corev1.NodeHostName, Address: "node1"}}, "[192.0.2.1]": {external, internal}, "[]": nil,
	} {
		if got := fmt.Sprint(nodeRecord(&corev1.Node{Status: corev1.NodeStatus{Addresses: reported}}).Addresses); got != want {
			t.Errorf("%v: %s, want %s", reported, got, want)
		}
	}
}

// Load balancers leave a node that is deleted, or that the autoscaler is about to remove.
func TestANodeThatGoesIsNotedAsLeaving(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		node corev1.Node
		want bool
	}{
		"that stays":                 {corev1.Node{}, false},
		"that is deleted":            {corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &now}}, true},
		"that the autoscaler takes":  {corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "x"}, {Key: "ToBeDeletedByClusterAutoscaler"}}}}, true},
		"with a taint of other uses": {corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable}}}}, false},
	} {
		if got := nodeRecord(&c.node).Leaving; got != c.want {
			t.Errorf("a node %s: leaving %v", name, got)
		}
	}
}

func TestNodesAndRangesOfServicesAreNoted(t *testing.T) {
	w := newWorld(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{corev1.LabelTopologyZone: "a"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	w.must(w.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}))
	for name, cidrs := range map[string][]string{"kubernetes": {"10.96.0.0/16", "fd00:96::/108"}, "more": {"203.0.113.0/24"}} {
		w.must(w.client.NetworkingV1().ServiceCIDRs().Create(t.Context(),
			&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}, metav1.CreateOptions{}))
	}
	w.follow()
	want := func(nodes map[string]string, ranges ...string) {
		t.Helper()
		w.eventually(func() error {
			got, all := map[string]string{}, mastercfg.K8sServiceRanges{}
			err := w.ledger.View(func(r ledger.Reader) (err error) {
				all, _ = ledger.Read[mastercfg.K8sServiceRanges](r, mastercfg.K8sRangesKey) // none yet
				return ledger.ReadEach(r, mastercfg.K8sNodePrefix, func(key string, n mastercfg.K8sNode) error {
					got[strings.TrimPrefix(key, mastercfg.K8sNodePrefix)] = fmt.Sprint(n)
					return nil
				})
			})
			var texts []string
			for _, p := range all.Ranges {
				texts = append(texts, netip.Prefix.String(p))
			}
			if err == nil && (!maps.Equal(got, nodes) || !slices.Equal(texts, ranges)) {
				err = fmt.Errorf("%v, %v; want %v, %v", got, texts, nodes, ranges)
			}
			return err
		})
	}
	want(map[string]string{"node1": "{[192.0.2.1] a false}"}, "10.96.0.0/16", "203.0.113.0/24", "fd00:96::/108")
	node.Spec.Taints = []corev1.Taint{{Key: scalerTaint}}
	w.must(w.client.CoreV1().Nodes().Update(t.Context(), node, metav1.UpdateOptions{}))
	w.must(nil, w.client.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "more", metav1.DeleteOptions{}))
	want(map[string]string{"node1": "{[192.0.2.1] a true}"}, "10.96.0.0/16", "fd00:96::/108")
	w.must(nil, w.client.CoreV1().Nodes().Delete(t.Context(), "node1", metav1.DeleteOptions{}))
	want(map[string]string{}, "10.96.0.0/16", "fd00:96::/108")
}
