package k8s

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// For every part of a policy that is not supported, the event names a replacement.
func TestWhatIsNotUnderstoodOfAPolicyHasARemedy(t *testing.T) {
	odd := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like", Values: []string{"w"}}}}
	check := func(what string, doubts []string, remedy string) {
		t.Helper()
		if len(doubts) != 1 || !strings.Contains(doubts[0], remedy) {
			t.Errorf("%s: %q has not the remedy %q", what, doubts, remedy)
		}
	}
	dccp := corev1.Protocol("DCCP")
	for remedy, rule := range map[string]networkingv1.NetworkPolicyIngressRule{
		"use In, NotIn, Exists or DoesNotExist":             {From: []networkingv1.NetworkPolicyPeer{{PodSelector: odd}}},
		"give it podSelector, namespaceSelector or ipBlock": {From: []networkingv1.NetworkPolicyPeer{{}}},
		"write one like 10.0.0.0/8 or fd00::/8":             {From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "nonsense"}}}},
		"write it like 10.0.0.0/8":                          {From: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "::ffff:10.0.0.0/90"}}}},
		"use TCP, UDP or SCTP, and numbers of 1 to 65535":   {Ports: []networkingv1.NetworkPolicyPort{{Protocol: &dccp}}},
	} {
		_, doubts := networkPolicy(&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{rule}}})
		check("NetworkPolicy", doubts, remedy)
	}
	_, doubts := networkPolicy(&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PodSelector: *odd}})
	check("subject", doubts, "use In, NotIn, Exists or DoesNotExist")

	all := v1alpha2.ClusterNetworkPolicySubject{Namespaces: &metav1.LabelSelector{}}
	everybody := []to{{Namespaces: &metav1.LabelSelector{}}}
	for what, c := range map[string]struct {
		tier    v1alpha2.Tier
		subject v1alpha2.ClusterNetworkPolicySubject
		rule    egress
		remedy  string
	}{
		"subject":    {"Admin", v1alpha2.ClusterNetworkPolicySubject{}, egress{Action: "Deny", To: everybody}, "give namespaces or pods"},
		"tier":       {"Guest", all, egress{Action: "Deny", To: everybody}, "use Admin or Baseline"},
		"action":     {"Admin", all, egress{Action: "Log", To: everybody}, "use Accept, Deny or Pass"},
		"no peers":   {"Admin", all, egress{Action: "Deny"}, "give it some"},
		"a peer":     {"Admin", all, egress{Action: "Deny", To: []to{{}}}, "give namespaces or pods"},
		"operator":   {"Admin", all, egress{Action: "Deny", To: []to{{Namespaces: odd}}}, "In and NotIn with values, Exists and DoesNotExist"},
		"nodes":      {"Admin", all, egress{Action: "Deny", To: []to{{Nodes: odd}}}, "In and NotIn with values, Exists and DoesNotExist"},
		"network":    {"Admin", all, egress{Action: "Deny", To: []to{{Networks: []v1alpha2.CIDR{"10.0.0.0/99"}}}}, "write one like 10.0.0.0/8 or fd00::/8"},
		"domains":    {"Admin", all, egress{Action: "Deny", To: []to{{DomainNames: []v1alpha2.DomainName{"example.org"}}}}, "name networks"},
		"domain":     {"Admin", all, egress{Action: "Accept", To: []to{{DomainNames: []v1alpha2.DomainName{"www.*.org"}}}}, "write one like example.org or *.example.org"},
		"port":       {"Admin", all, egress{Action: "Deny", To: everybody, Protocols: []protocol{{}}}, "give tcp, udp or sctp a destinationPort of 1 to 65535, or destinationNamedPort"},
		"named port": {"Admin", all, egress{Action: "Deny", To: []to{{Networks: []v1alpha2.CIDR{"10.0.0.0/8"}}}, Protocols: []protocol{{DestinationNamedPort: "web"}}}, "give its number"},
	} {
		_, doubts := clusterNetworkPolicy(&v1alpha2.ClusterNetworkPolicy{Spec: v1alpha2.ClusterNetworkPolicySpec{Tier: c.tier, Subject: c.subject, Egress: []egress{c.rule}}},
			func(labels.Selector) ([]netip.Prefix, error) { return nil, nil })
		check(what, doubts, c.remedy)
	}
}

// For every reason that a pod is not placed, the event names a remedy.
func TestAPodWithoutAPlaceHasARemedy(t *testing.T) {
	w := grouped(t)
	w.put(&contivmodel.Tenant{TenantName: "closed", Namespaces: "others"}, &contivmodel.Network{TenantName: "default", NetworkName: "other", Subnet: "10.9.0.0/16"},
		&contivmodel.Network{TenantName: "default", NetworkName: "contivh1", NwType: "infra", Subnet: "10.127.0.0/16"})
	w.must(w.client.CoreV1().Namespaces().Update(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
		Annotations: map[string]string{allowedKey: "closed,missing"}}}, metav1.UpdateOptions{}))
	w.pod("first", "first", "node1", nil)
	w.attached("first", "node1", "10.128.0.5", "")
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error { // of a pod that was deleted by force
		_, err := master.NewCooldown(time.Now).CreateEndpoint(tx, &mastercfg.CreateEndpointRequest{TenantName: "default", NetworkName: "default-net", EndpointID: "c-gone",
			EPCommonName: "gone", PodNamespace: "shop", PodUID: "gone", ConfigEP: mastercfg.ConfigEP{Container: "c-gone", Host: "away", IPAddress: "10.128.0.7"}})
		return err
	}))
	w.follow()
	w.pod("asks", "asks", "node1", asking("10.128.0.6", ""))
	w.want(map[string]string{"node1/first": "default/default-net/", "node1/asks": "default/default-net/"})
	anotherOne := "let " + mastercfg.IPv4Annotation + " ask for another one"
	for uid, c := range map[string]struct {
		reason, remedy string
		asks           map[string]string
	}{
		"tenant":    {"TenantNotFound", "netctl tenant create missing", map[string]string{mastercfg.TenantLabel: "missing"}},
		"foreign":   {"TenantNotAllowed", "name them in its annotation " + allowedKey, map[string]string{mastercfg.TenantLabel: "green"}},
		"namespace": {"TenantNotAllowed", "netctl tenant update closed --namespaces NAMES", map[string]string{mastercfg.TenantLabel: "closed"}},
		"network":   {"NetworkNotFound", "netctl network create -t default -s SUBNET -g GATEWAY missing", map[string]string{mastercfg.NetworkLabel: "missing"}},
		"nodes":     {"NetworkOfNodes", "leave " + mastercfg.NetworkLabel + " out", map[string]string{mastercfg.NetworkLabel: "contivh1"}},
		"group":     {"GroupNotFound", "netctl group create -t default NETWORK missing", map[string]string{mastercfg.GroupLabel: "missing"}},
		"conflict":  {"PlacementConflict", "leave " + mastercfg.NetworkLabel + " out, or name a group of network other", map[string]string{mastercfg.NetworkLabel: "other", mastercfg.GroupLabel: "front"}},
		"name":      {"InvalidName", "want letters, digits", map[string]string{mastercfg.GroupLabel: "no name"}},
		"outside":   {"AddressInvalid", anotherOne, map[string]string{mastercfg.IPv4Annotation: "10.9.0.5"}},
		"gateway":   {"AddressInvalid", anotherOne, map[string]string{mastercfg.IPv4Annotation: "10.128.0.1"}},
		"version":   {"AddressInvalid", "leave " + mastercfg.IPv6Annotation + " out", map[string]string{mastercfg.IPv6Annotation: "fd00::5"}},
		"nonsense":  {"AddressInvalid", "want an address such as 10.1.2.3", map[string]string{mastercfg.IPv4Annotation: "nonsense"}},
		"mac":       {"AddressInvalid", "ask for one by " + mastercfg.IPv4Annotation, map[string]string{macAnnotation: "02:02:0a:80:00:05"}},
		"held":      {"AddressInUse", "delete that, or " + anotherOne, map[string]string{mastercfg.IPv4Annotation: "10.128.0.5"}},
		"left":      {"AddressInUse", "which pod shop/gone had, that was deleted while node away was away: start the node, or remove it by kubectl delete node away and, if it joined with a token, netctl node rm away, or " + anotherOne, map[string]string{mastercfg.IPv4Annotation: "10.128.0.7"}},
		"asked":     {"AddressInUse", "delete that, or " + anotherOne, map[string]string{mastercfg.IPv4Annotation: "10.128.0.6"}},
		"reserved":  {"AddressInUse", anotherOne, map[string]string{mastercfg.IPv4Annotation: "10.128.7.4"}},
		"rate":      {"BandwidthInvalid", "want bits per second such as 10M", map[string]string{ingressAnnotation: "fast"}},
		"profile":   {"ProfileNotFound", "netctl netprofile create -t default missing", map[string]string{mastercfg.ProfileAnnotation: "missing"}},
	} {
		w.pod(uid, uid, "node1", func(p *corev1.Pod) { p.Annotations = c.asks })
		var record mastercfg.K8sPod
		w.eventually(func() error {
			return w.ledger.View(func(r ledger.Reader) (err error) {
				record, err = ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey("node1", uid))
				return err
			})
		})
		if record.Reason != c.reason || !strings.Contains(record.Message, c.remedy) {
			t.Errorf("%s: %s: %q, want %s, and the remedy %q", uid, record.Reason, record.Message, c.reason, c.remedy)
		}
	}
}

// For every address of a service that is not served, the event names a remedy.
func TestAnAddressThatIsNotServedHasARemedy(t *testing.T) {
	w := newWorld(t)
	many := make([]string, maxLooked+1)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{198, 51, 100, byte(i + 1)}).String()
	}
	w.service("many", func(s *corev1.Service) { s.Spec.ExternalIPs = many }, "=80")
	w.service("loop", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"127.0.0.1"} }, "=81")
	w.service("group", nil, "=82")
	w.slice("group-1", "group", "", 82, nil, "239.1.1.1")
	w.follow()
	for service, remedies := range map[string][]string{
		"many":  {"are not looked at: at most 32 are served; use several services", "are too many: at most 32 are served; use several services"},
		"loop":  {"127.0.0.1 is in ", "use another address"},
		"group": {"let its EndpointSlices name others"},
	} {
		w.told(service, addressNotServed)
		list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
		w.must(list, err)
		for _, e := range list.Items {
			for _, remedy := range remedies {
				if e.Regarding.Name == service && e.Reason == addressNotServed && !strings.Contains(e.Note, remedy) {
					t.Errorf("%s: %q has not the remedy %q", service, e.Note, remedy)
				}
			}
		}
	}
}
