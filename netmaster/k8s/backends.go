package k8s

import (
	"cmp"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// backend is a backend of a service, and the port of the service that is forwarded to it.
type backend struct {
	mastercfg.K8sBackend
	port string
}

// maxBackends is how many backends of a service are recorded, of all its ports together: as many as the largest slice has
// (1,000 endpoints, 100 ports). Each is a key in the store and on every node.
const maxBackends = 100 * 1000

// backends collects the backends in the EndpointSlices of a service, each address of a port once, since pods move from slice to slice.
// Of duplicates, one that does not terminate is preferred, then that of the newest slice; the order of the objects does
// not matter. If there are more than most, only the backends of some addresses are returned, the same at each port, and
// left is the number of the others.
func backends(service mastercfg.K8sService, objects []any, most int) (all []backend, left int) {
	var served []*discoveryv1.EndpointSlice
	ports := map[portID]struct{}{}
	for _, p := range service.Ports {
		ports[portIDOf(p.Name, corev1.Protocol(p.Protocol))] = struct{}{}
	}
	count := map[netip.Addr]int{}
	for _, object := range objects {
		slice := object.(*discoveryv1.EndpointSlice) // the index has nothing else
		if !isServed(slice.Labels) || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		served = append(served, slice)
		portCount := len(portsOfSlice(slice, ports))
		for _, e := range slice.Endpoints {
			if one, ok := endpoint(e, "", 0); ok {
				count[one.Address.Addr()] += portCount
			}
		}
	}
	slices.SortFunc(served, func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	without, left := surplusOf(count, most)
	found := map[string]map[netip.AddrPort]backend{}
	for _, slice := range served {
		for _, port := range portsOfSlice(slice, ports) {
			if found[*port.Name] == nil {
				found[*port.Name] = map[netip.AddrPort]backend{}
			}
			for _, e := range slice.Endpoints {
				one, ok := endpoint(e, *port.Name, uint16(*port.Port))
				if _, not := without[one.Address.Addr()]; not {
					continue
				}
				if before, twice := found[*port.Name][one.Address]; ok && (!twice || before.Terminating && !one.Terminating) {
					found[*port.Name][one.Address] = one
				}
			}
		}
	}
	for _, port := range found {
		all = slices.AppendSeq(all, maps.Values(port))
	}
	return all, left
}

// portsOfSlice returns the ports of a slice that its service has, too.
func portsOfSlice(slice *discoveryv1.EndpointSlice, ofService map[portID]struct{}) (some []discoveryv1.EndpointPort) {
	for _, port := range slice.Ports {
		if port.Name == nil || port.Port == nil || *port.Port < 1 || *port.Port > 65535 {
			continue
		}
		if _, has := ofService[portIDOf(*port.Name, ptr.Deref(port.Protocol, ""))]; has {
			some = append(some, port)
		}
	}
	return some
}

// portID identifies a port in a service and in its slices.
type portID struct {
	name     string
	protocol corev1.Protocol
}

// portIDOf makes the portID of a name and a protocol, by default TCP.
func portIDOf(name string, protocol corev1.Protocol) portID {
	return portID{name, cmp.Or(protocol, corev1.ProtocolTCP)}
}

// surplusOf chooses the addresses to leave out such that no more than most backends remain, and counts the backends left out. The choice
// is by hashes of the addresses: when one is added or removed, it stays the same for most others.
func surplusOf(count map[netip.Addr]int, most int) (without map[netip.Addr]struct{}, left int) {
	total := 0
	for _, n := range count {
		total += n
	}
	if total <= most {
		return nil, 0
	}
	rank := make(map[netip.Addr]uint64, len(count))
	for a := range count {
		h := fnv.New64a()
		_, _ = h.Write(a.AsSlice()) // never fails, as hash.Hash promises
		rank[a] = h.Sum64()
	}
	byRank := slices.SortedFunc(maps.Keys(count), func(a, b netip.Addr) int { return cmp.Or(cmp.Compare(rank[a], rank[b]), a.Compare(b)) })
	without, total = map[netip.Addr]struct{}{}, 0
	for _, a := range byRank {
		if total+count[a] <= most {
			total += count[a]
			continue
		}
		without[a] = struct{}{}
		left += count[a]
	}
	return without, left
}

// When a service with a backend of an unknown pod is reconciled again. At first soon: the pod's record is being written, or the pod is
// deleted and its slice not updated yet. If it stays unknown, there is an event, and later looks are rarer.
const (
	unknownAgain = 3 * time.Second
	unknownLater = time.Minute
)

// owner is what is known about the pod of a backend.
type owner struct {
	tenant  string // of the pod; empty: the backend may serve all tenants
	unknown bool   // the backend may get no clients, until more is known
	ended   bool   // no process of the pod runs, and its address may have been assigned to another one
}

// owner finds the tenant of a backend's pod. home is the tenant of the service. A pod without a record has to use the
// network of its node, and an address of it.
func (b *balancer) owner(r ledger.Reader, namespace, home string, one backend) (owner, error) {
	if one.Pod == "" {
		return owner{}, nil
	}
	uid, on := one.Pod, one.Node
	pod, err := b.podOf(uid)
	if err != nil {
		return owner{}, err
	}
	if pod != nil {
		if isFinished(pod) {
			return owner{ended: true}, nil
		}
		if pod.Spec.HostNetwork {
			return owner{}, nil
		}
		uid, on = uidOf(pod), pod.Spec.NodeName // the UID of a static pod is another one; a slice may name no node
	}
	record, err := ledger.Read[mastercfg.K8sPod](r, mastercfg.K8sPodKey(on, uid))
	if err == nil && record.Namespace != namespace && record.Tenant != home { // a slice may name any pod
		return owner{unknown: true}, nil
	}
	if err == nil {
		return owner{tenant: record.Tenant, unknown: record.Tenant == ""}, nil
	}
	if !fault.Is(err, fault.NotFound) {
		return owner{}, err
	}
	node, err := ledger.Read[mastercfg.K8sNode](r, mastercfg.K8sNodePrefix+on)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return owner{}, err
	}
	return owner{unknown: !slices.Contains(node.Addresses, one.Address.Addr())}, nil
}

// uidIndex finds pods by the UIDs that the API server knows them by.
const uidIndex = "uid"

func uidOfObject(object any) (uids []string, err error) {
	if pod, ok := object.(*corev1.Pod); ok && pod.UID != "" {
		uids = append(uids, string(pod.UID))
	}
	return uids, nil
}

// podOf returns the pod with a UID, in whatever namespace, or nil.
func (b *balancer) podOf(uid string) (*corev1.Pod, error) {
	found, err := b.pods.ByIndex(uidIndex, uid)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0].(*corev1.Pod), nil // the index has nothing else, and each UID once
}

// leftAgain is when a service with draining backends is reconciled again.
const leftAgain = 10 * time.Second

// drainsMost is how long a removed backend keeps its connections if Kubernetes has no pod or node by which to tell whether it
// is alive. It may be an API server, where each watch ends within an hour (by default of --min-request-timeout), and the
// client begins the next one elsewhere.
const drainsMost = time.Hour

// draining returns the former backends of a service in a tenant, which keep their TCP connections: those whose pods are running and,
// while the tenant has the service, also those on nodes and, for a time, others.
func (b *balancer) draining(r ledger.Reader, service mastercfg.K8sService, tenant string, wanted map[string]any) ([]backend, error) {
	prefix := mastercfg.K8sBackendsOf(tenant, service.Namespace, service.Name)
	nodes, now := sync.OnceValues(b.nodeAddresses), time.Now()
	noted, err := ledger.Read[mastercfg.K8sService](r, mastercfg.K8sServiceKey(tenant, service.Namespace, service.Name))
	if err != nil {
		noted = service // it has none yet, or is damaged
	}
	names := portNames(noted.Ports, service.Ports)
	var own, others []backend
	var failed error
	r.Range(prefix, func(key string, _ []byte) bool {
		port, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
		before, err := ledger.Read[mastercfg.K8sBackend](r, key)
		at := func(name string) string {
			return mastercfg.K8sBackendKey(tenant, service.Namespace, service.Name, name, before.Address)
		}
		name, keeps := names[mastercfg.K8sPortName(port)]
		isIt := err == nil && key == at(mastercfg.K8sPortName(port)) && pipeline.OfOneHost(before.Address.Addr()) // else it is damaged
		if _, stays := wanted[at(name)]; !isIt || stays || !keeps {
			return true
		}
		one := backend{port: name, K8sBackend: mastercfg.K8sBackend{Address: before.Address, Node: before.Node, Pod: before.Pod, Terminating: true}}
		drains, asPod, err := b.stillDrains(&one, before.Until, nodes, now)
		switch {
		case err != nil:
			failed = err
			return false
		case drains && asPod:
			own = append(own, one)
		case drains:
			others = append(others, one)
		}
		return len(own)+len(others) < maxBackends
	})
	if _, has := wanted[mastercfg.K8sServiceKey(tenant, service.Namespace, service.Name)]; !has && len(own) == 0 {
		return nil, failed
	}
	return append(own, others...), failed
}

// stillDrains reports whether a former backend keeps its connections; asPod: as one of a running pod with a network of
// its own. It sets until when, if it is not known whether the backend is alive; noted is that of its record.
func (b *balancer) stillDrains(one *backend, noted time.Time, nodes func() (map[netip.Addr]struct{}, error), now time.Time) (drains, asPod bool, err error) {
	pod, err := b.podOf(one.Pod)
	switch {
	case err != nil:
		return false, false, err
	case pod == nil && one.Pod != "":
		return false, false, nil
	case pod != nil:
		return !isFinished(pod) && !hasOtherAddress(pod, one.Address.Addr()), !pod.Spec.HostNetwork, nil
	}
	known, err := nodes()
	if err != nil {
		return false, false, err
	}
	if _, ofNode := known[one.Address.Addr()]; !ofNode {
		one.Until = drainsUntil(noted, now)
	}
	return one.Until.IsZero() || one.Until.After(now), false, nil
}

// hasOtherAddress reports whether a pod has addresses, but not this one: it has a new sandbox, or its node has other
// addresses.
func hasOtherAddress(pod *corev1.Pod, address netip.Addr) bool {
	return len(pod.Status.PodIPs) > 0 && !slices.ContainsFunc(pod.Status.PodIPs, func(p corev1.PodIP) bool {
		a, err := netip.ParseAddr(p.IP)
		return err == nil && a == address
	})
}

// portNames maps names of TCP ports, current and former, to current names, by port number: slices have a new name later than their service.
func portNames(before, now []mastercfg.K8sServicePort) map[string]string {
	names, numbers := map[string]string{}, map[uint16]string{}
	for _, p := range now {
		if p.Protocol == "TCP" {
			names[p.Name], numbers[p.Port] = p.Name, p.Name
		}
	}
	for _, p := range before {
		_, has := names[p.Name]
		if name, same := numbers[p.Port]; same && !has && p.Protocol == "TCP" {
			names[p.Name] = name
		}
	}
	return names
}

// drainsUntil returns when the connections of a backend end that is not known to be alive: at the recorded time, or
// drainsMost from now if none is recorded, or a later one, by a clock that was wrong.
func drainsUntil(noted, now time.Time) time.Time {
	if latest := now.Add(drainsMost).UTC().Truncate(time.Second); noted.IsZero() || noted.After(latest) {
		return latest
	}
	return noted
}

// nodeAddresses returns the addresses of all Node objects.
func (b *balancer) nodeAddresses() (map[netip.Addr]struct{}, error) {
	nodes, err := b.nodes.List(labels.Everything())
	all := make(map[netip.Addr]struct{}, len(nodes))
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			for _, address := range addresses([]string{a.Address}) { // else a name
				all[address] = struct{}{}
			}
		}
	}
	return all, err
}

// isFinished reports whether no process of a pod runs any more.
func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
