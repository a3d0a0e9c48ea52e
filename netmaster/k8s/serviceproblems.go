package k8s

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Reasons of events about parts of a service that are not served.
const (
	addressNotServed = "AddressNotServed"
	portNotServed    = "PortNotServed"
	backendNotServed = "BackendNotServed"
	serviceTooLarge  = "ServiceTooLarge"
	notShared        = "SharingNotAllowed"
)

// Reasons of events that are not problems.
const (
	externalIPUsed  = "ExternalIPUsed"
	externalIPsOff  = "ExternalIPsOff"
	spansTenants    = "ServiceSpansTenants"
	affinityTooLong = "AffinityTooLong"
)

// externalUsed returns the note on external IPs, which the owner of a service has chosen: no other part of a service
// attracts packets that may be for others.
func externalUsed(served mastercfg.K8sService) string {
	if len(served.External) == 0 {
		return ""
	}
	first := served.External[0].String()
	if more := len(served.External) - 1; more > 0 {
		first = fmt.Sprintf("%s and %d more", first, more)
	}
	return fmt.Sprintf("externalIPs lead %s here from all pods and nodes of the cluster, whoever has the address elsewhere, and Kubernetes is going to drop them: "+
		"use a service of type LoadBalancer, or node ports", first)
}

// unserved returns messages about ports of a service that no node serves.
func unserved(s mastercfg.K8sService) (texts []string) {
	for _, p := range s.Ports {
		if p.Protocol != string(corev1.ProtocolTCP) && p.Protocol != string(corev1.ProtocolUDP) {
			texts = append(texts, fmt.Sprintf("port %d is not served: %s is not balanced, as the userspace datapath of Open vSwitch before 3.2 knows no ports of it; "+
				"let clients ask its pods, by a headless service", p.Port, p.Protocol))
		}
	}
	return texts
}

// shortenedAffinity returns the note on a service whose affinity timeout is longer than a switch keeps affinity.
func shortenedAffinity(s mastercfg.K8sService) string {
	if s.Affinity <= pipeline.MaxAffinity {
		return ""
	}
	return fmt.Sprintf("a client keeps its backend for %d s after its last connection, not for %d: a switch remembers it no longer; "+
		"let sessionAffinityConfig.clientIP.timeoutSeconds ask for %d at most", pipeline.MaxAffinity, s.Affinity, pipeline.MaxAffinity)
}

// invalidAddresses returns the problem of backends in slices whose address is invalid or cannot be that of one host.
// Slices of type FQDN are reported by unmatched.
func invalidAddresses(objects []any) (texts []string) {
	var odd []string
	for _, object := range objects {
		slice := object.(*discoveryv1.EndpointSlice) // the index has nothing else
		if !isServed(slice.Labels) || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		for _, e := range slice.Endpoints {
			for _, text := range e.Addresses[:min(1, len(e.Addresses))] {
				if at := addresses([]string{text}); len(at) == 0 {
					odd = append(odd, text)
				} else if !pipeline.OfOneHost(at[0]) {
					odd = append(odd, at[0].String())
				}
			}
		}
	}
	if len(odd) > 0 {
		texts = append(texts, fmt.Sprintf("%d backends are not served, such as %s, which is not an address of one host; let its EndpointSlices name others", len(odd), slices.Min(odd)))
	}
	return texts
}

// tooLarge returns messages about ports with more backends, in one tenant, than a node balances over.
func tooLarge(all []backend, most int) (texts []string) {
	type of struct {
		port string
		ipv4 bool
	}
	count := map[of]int{}
	for _, one := range all {
		count[of{one.port, one.Address.Addr().Is4()}]++
	}
	for o, n := range count {
		if n > most {
			texts = append(texts, fmt.Sprintf("port %q has %d backends of IPv%d, and a node uses %d of them, each node others; use several services",
				o.port, n, map[bool]int{true: 4, false: 6}[o.ipv4], most))
		}
	}
	return texts
}

// reportEvents reports the parts of a service that are not served, and its notes; nil: the service was deleted.
func (b *balancer) reportEvents(service *corev1.Service, key string, should desired) {
	if service == nil {
		b.warnings.clear("service/" + key)
		b.notes.clear("service/" + key)
		return
	}
	for _, reason := range []string{externalIPUsed, externalIPsOff, spansTenants, affinityTooLong} {
		b.inform(service, "service/"+key, reason, should.notes[reason])
	}
	for _, reason := range []string{addressNotServed, portNotServed, backendNotServed, serviceTooLarge, notShared} {
		texts := slices.Compact(slices.Sorted(slices.Values(should.problems[reason])))
		b.warn(service, "service/"+key, reason, "Serve", strings.Join(texts, "; "))
	}
}
