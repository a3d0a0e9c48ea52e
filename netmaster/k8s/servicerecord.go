package k8s

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netutils "k8s.io/utils/net"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Labels that take a service, or a slice, away from us: another proxy serves it, or nobody does.
const (
	proxyLabel    = "service.kubernetes.io/service-proxy-name"
	headlessLabel = corev1.IsHeadlessService
)

func isServed(labels map[string]string) bool {
	_, others := labels[proxyLabel]
	_, headless := labels[headlessLabel]
	return !others && !headless
}

// serviceRecord is what agents need of a service; not served: it has no address of its own.
func serviceRecord(s *corev1.Service) (record mastercfg.K8sService, served bool) {
	if s == nil || !isServed(s.Labels) || s.Spec.Type == corev1.ServiceTypeExternalName {
		return record, false
	}
	record = mastercfg.K8sService{Namespace: s.Namespace, Name: s.Name}
	record.Addresses = addresses(append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...))
	if len(record.Addresses) == 0 {
		return record, false
	}
	record.External = addresses(s.Spec.ExternalIPs)
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy {
			record.LoadBalancers = append(record.LoadBalancers, addresses([]string{in.IP})...)
		}
	}
	for _, list := range []*[]netip.Addr{&record.External, &record.LoadBalancers} {
		slices.SortFunc(*list, netip.Addr.Compare)
		*list = slices.Compact(*list)
	}
	for _, text := range s.Spec.LoadBalancerSourceRanges {
		if _, n, err := netutils.ParseCIDRSloppy(strings.TrimSpace(text)); err == nil {
			base, _ := netip.AddrFromSlice(n.IP)
			bits, _ := n.Mask.Size()
			record.SourceRanges = append(record.SourceRanges, netip.PrefixFrom(base, bits))
		}
	}
	for _, p := range s.Spec.Ports {
		record.Ports = append(record.Ports, mastercfg.K8sServicePort{Name: p.Name, Protocol: string(p.Protocol), Port: uint16(p.Port), NodePort: uint16(p.NodePort)})
	}
	record.Shared = isShared(s)
	record.InternalLocal = s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
	record.ExternalLocal = s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer && record.ExternalLocal {
		record.HealthPort = uint16(s.Spec.HealthCheckNodePort)
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		record.Affinity = int(corev1.DefaultClientIPServiceAffinitySeconds)
		if c := s.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
			record.Affinity = int(*c.ClientIP.TimeoutSeconds)
		}
	}
	return record, true
}

// isShared tells whether pods of every tenant reach a service: those without which no pod gets along,
// and those of which somebody says so.
func isShared(s *corev1.Service) bool {
	switch s.Namespace + "/" + s.Name {
	case "default/kubernetes", "kube-system/kube-dns":
		return true
	}
	return s.Annotations[mastercfg.SharedAnnotation] == "true"
}

// addresses parses those that are some, each once and in their order; old objects may have
// leading zeros.
func addresses(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		if a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text)); ok && !slices.Contains(all, a.Unmap()) {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// endpoint is a backend of a port; ok is false if it has no address.
func endpoint(e discoveryv1.Endpoint, port string, number uint16) (b behind, ok bool) {
	at := addresses(e.Addresses[:min(1, len(e.Addresses))]) // the others have no meaning
	if len(at) == 0 {
		return b, false
	}
	is := func(condition *bool, otherwise bool) bool {
		return condition == nil && otherwise || condition != nil && *condition
	}
	b = behind{port: port, K8sBackend: mastercfg.K8sBackend{
		Address: netip.AddrPortFrom(at[0], number),
		Ready:   is(e.Conditions.Ready, true), Serving: is(e.Conditions.Serving, true), Terminating: is(e.Conditions.Terminating, false),
	}}
	if e.NodeName != nil {
		b.Node = *e.NodeName
	}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		b.name, b.Pod = e.TargetRef.Name, string(e.TargetRef.UID)
	}
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			b.ForZones = append(b.ForZones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			b.ForNodes = append(b.ForNodes, n.Name)
		}
	}
	return b, true
}
