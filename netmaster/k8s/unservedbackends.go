package k8s

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// unmatchedGrace is how long slices may mismatch their service until that is reported: controllers change slices
// some time after services.
const unmatchedGrace = 10 * time.Second

// unmatchedSince is a reason why backends of a service are not served, and since when.
type unmatchedSince struct {
	why string
	at  time.Time
}

// unmatched counts backends in slices to which no port, or no address, of their service leads, and returns the
// reason for the first slice by name. record has the addresses of the service.
func unmatched(service *corev1.Service, record mastercfg.K8sService, objects []any) (count int, first string) {
	if len(service.Spec.Ports) == 0 {
		return 0, "" // none could match; the API server lets in none such that has an address
	}
	var served []*discoveryv1.EndpointSlice
	for _, object := range objects {
		if slice := object.(*discoveryv1.EndpointSlice); isServed(slice.Labels) && len(slice.Endpoints) > 0 { // the index has nothing else
			served = append(served, slice)
		}
	}
	slices.SortFunc(served, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	ports := make(map[portID]struct{}, len(service.Spec.Ports))
	for _, p := range service.Spec.Ports {
		ports[portIDOf(p.Name, p.Protocol)] = struct{}{}
	}
	for _, slice := range served {
		why := mismatch(service, ports, record, slice)
		if why == "" {
			continue
		}
		if count += len(slice.Endpoints); first == "" {
			first = fmt.Sprintf("EndpointSlice %s %s", slice.Name, why)
		}
	}
	return count, first
}

// mismatch returns why a slice, or a port of its service in it, is not served, with a remedy; empty if it is.
// ports are those of the service. A slice may have other ports as well.
func mismatch(service *corev1.Service, ports map[portID]struct{}, record mastercfg.K8sService, slice *discoveryv1.EndpointSlice) (why string) {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return "is of addressType FQDN, and nobody looks names up; let it be of IPv4 or IPv6, with addresses"
	}
	is4 := slice.AddressType == discoveryv1.AddressTypeIPv4
	if !slices.ContainsFunc(record.Addresses, func(a netip.Addr) bool { return a.Is4() == is4 }) {
		return fmt.Sprintf("is of addressType %s, of which the service has no cluster address; make the service dual-stack, or use the other type", slice.AddressType)
	}
	if len(slice.Ports) == 0 {
		return "has no ports; give it those of the service, or, if a controller has made it, let the pods have the port that targetPort names"
	}
	known := false
	for _, p := range slice.Ports {
		id, number := portIDOf(ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, "")), ptr.Deref(p.Port, 0)
		_, has := ports[id]
		if known = known || has; has && (number < 1 || number > 65535) {
			return fmt.Sprintf("has no number for port %s; give it one of 1 to 65535", id)
		}
	}
	if known {
		return ""
	}
	one, of := slice.Ports[0], service.Spec.Ports[0]
	return fmt.Sprintf("has port %s, which the service has not; let it have name and protocol of one of the service's, such as %s",
		portIDOf(ptr.Deref(one.Name, ""), ptr.Deref(one.Protocol, "")), portIDOf(of.Name, of.Protocol))
}

// String is a port as messages show it.
func (p portID) String() string { return fmt.Sprintf("%q of %s", p.name, p.protocol) }

// unservedBackends returns the problem of a service's backends that are not served: mismatched ones after
// unmatchedGrace, those that are not reached, for the reasons in nowhere, after the balancer's grace. again is
// after how long to call it again; 0: no need.
func (b *balancer) unservedBackends(service string, nowhere map[netip.Addr]string, mismatched int, mismatch string, now time.Time) (problems []string, again time.Duration) {
	count, why := 0, ""
	if mismatch == "" {
		b.forgetUnmatched(service)
	} else if again = b.unmatchedDelay(service, mismatch, now); again <= 0 {
		count, why, again = mismatched, mismatch, 0
	}
	long := b.unreachedBackends(service, nowhere, now)
	if count += len(long); len(long) > 0 {
		why = cmp.Or(why, nowhere[long[0]])
	}
	switch {
	case len(long) < len(nowhere):
		again = sooner(again, unknownAgain)
	case len(long) > 0:
		again = sooner(again, unknownLater)
	}
	if count > 0 {
		problems = []string{fmt.Sprintf("%d backends are not served, the first because %s", count, why)}
	}
	return problems, again
}

// unknownAddressText returns the reason why a backend at an address without a known owner is not served.
func unknownAddressText(address netip.Addr) string {
	return fmt.Sprintf("%s is said to be of a pod (targetRef) that is not there, or of another tenant, "+
		"or has no place in the network; name the pod that has the address, or none if it is no pod's", address)
}

// unreachedBackends records since when backends of a service are not reached, and returns those that are not for
// the balancer's grace, sorted.
func (b *balancer) unreachedBackends(service string, addresses map[netip.Addr]string, now time.Time) (long []netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, since := b.unreached[service], map[netip.Addr]time.Time{}
	for address := range addresses {
		at, known := before[address]
		if !known {
			at = now
		}
		if since[address] = at; now.Sub(at) >= b.grace {
			long = append(long, address)
		}
	}
	if b.unreached[service] = since; len(since) == 0 {
		delete(b.unreached, service)
	}
	slices.SortFunc(long, netip.Addr.Compare)
	return long
}

// unmatchedDelay returns how long to wait before reporting that backends of a service are not served for this reason.
func (b *balancer) unmatchedDelay(service, why string, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := b.unmatched[service]
	if since.why != why {
		since = unmatchedSince{why, now}
		b.unmatched[service] = since
	}
	return b.grace - now.Sub(since.at)
}

// forgetUnmatched drops a service whose backends are all served.
func (b *balancer) forgetUnmatched(service string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.unmatched, service)
}
