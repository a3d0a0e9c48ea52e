package k8s

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netutils "k8s.io/utils/net"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Labels of services and slices that are not served here: another proxy serves them, or none does.
const (
	proxyLabel    = "service.kubernetes.io/service-proxy-name"
	headlessLabel = corev1.IsHeadlessService
)

func isServed(labels map[string]string) bool {
	_, others := labels[proxyLabel]
	_, headless := labels[headlessLabel]
	return !others && !headless
}

// serviceRecord returns what agents need of a service; served is false for one without ClusterIP, or of another proxy.
func serviceRecord(s *corev1.Service) (record mastercfg.K8sService, served bool) {
	if s == nil || !isServed(s.Labels) || s.Spec.Type == corev1.ServiceTypeExternalName {
		return record, false
	}
	record = mastercfg.K8sService{Namespace: s.Namespace, Name: s.Name}
	record.Addresses = addresses(append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...))
	if len(record.Addresses) == 0 {
		return record, false
	}
	record.External = addresses(s.Spec.ExternalIPs[:min(len(s.Spec.ExternalIPs), maxLooked)])
	for _, in := range s.Status.LoadBalancer.Ingress[:min(len(s.Status.LoadBalancer.Ingress), maxLooked)] {
		if in.IPMode == nil || *in.IPMode != corev1.LoadBalancerIPModeProxy {
			record.LoadBalancers = append(record.LoadBalancers, addresses([]string{in.IP})...)
		}
	}
	for _, list := range []*[]netip.Addr{&record.External, &record.LoadBalancers} {
		slices.SortFunc(*list, netip.Addr.Compare)
		*list = slices.Compact(*list)
	}
	record.SourceRanges = sourceRanges(s.Spec.LoadBalancerSourceRanges[:min(len(s.Spec.LoadBalancerSourceRanges), maxRanges)])
	for _, p := range s.Spec.Ports {
		record.Ports = append(record.Ports, mastercfg.K8sServicePort{
			Name: p.Name, Protocol: string(p.Protocol), Port: uint16(p.Port), NodePort: uint16(p.NodePort),
		})
	}
	record.Ports = servedPorts(record)
	record.Shared = isNeeded(s)
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

// noClient is a network that no client is in.
var noClient = netip.PrefixFrom(netip.IPv4Unspecified(), 32)

// sourceRanges returns the ranges that can be parsed. If none of several can, it returns a range without
// clients, since an empty list permits all.
func sourceRanges(texts []string) (all []netip.Prefix) {
	for _, text := range texts {
		if net, err := cidr(strings.TrimSpace(text)); err == nil {
			all = append(all, net)
		}
	}
	if len(texts) > 0 && all == nil {
		all = append(all, noClient)
	}
	return all
}

// isNeeded reports whether pods of all tenants need a service: the API server's, and DNS.
func isNeeded(s *corev1.Service) bool {
	name := s.Namespace + "/" + s.Name
	return name == "default/kubernetes" || name == "kube-system/kube-dns"
}

// allowSharedKey is an annotation of a namespace: "true" permits its services to be shared with all tenants. It is
// on the namespace because editors of services of a namespace usually may not edit the namespace.
const allowSharedKey = "io.contiv.allow-shared"

// share opens a service to all tenants if its annotation says so and its namespace permits it, and otherwise
// returns why not.
func share(record *mastercfg.K8sService, s *corev1.Service, namespace *corev1.Namespace, choice TenantChoice) (problems []string) {
	switch {
	case record.Shared || s.Annotations[mastercfg.SharedAnnotation] != "true":
	case choice == Open || namespace.Annotations[allowSharedKey] == "true":
		record.Shared = true
	default:
		return []string{fmt.Sprintf("annotation %s opens a service to all tenants only in a namespace with the annotation %s: \"true\"",
			mastercfg.SharedAnnotation, allowSharedKey)}
	}
	return nil
}

// addresses parses the texts that are addresses, without duplicates, in their order. Old objects may have
// leading zeros.
func addresses(texts []string) (all []netip.Addr) {
	for _, text := range texts {
		if a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(text)); ok && !slices.Contains(all, a.Unmap()) {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// endpoint makes the backend of an endpoint at a port; ok is false if its address cannot be that of a host.
func endpoint(e discoveryv1.Endpoint, port string, number uint16) (b backend, ok bool) {
	at := addresses(e.Addresses[:min(1, len(e.Addresses))]) // the API gives further addresses no meaning
	if len(at) == 0 || !pipeline.OfOneHost(at[0]) {
		return b, false
	}
	is := func(condition *bool, otherwise bool) bool {
		return condition == nil && otherwise || condition != nil && *condition
	}
	b = backend{port: port, K8sBackend: mastercfg.K8sBackend{
		Address: netip.AddrPortFrom(at[0], number),
		Ready:   is(e.Conditions.Ready, true), Serving: is(e.Conditions.Serving, true), Terminating: is(e.Conditions.Terminating, false),
	}}
	if e.NodeName != nil {
		b.Node = *e.NodeName
	}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		b.Pod = string(e.TargetRef.UID)
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
