package k8s

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// macAnnotation requests a MAC address, which is always refused.
const macAnnotation = "io.contiv.mac"

// Reasons why a pod does not get the address that it requests.
const (
	addressInvalid = "AddressInvalid" // its network or group does not allocate it
	addressInUse   = "AddressInUse"   // another endpoint or pod has it
)

// requestedAddresses returns the addresses that a pod requests by annotations. The error is a refusal if its network does not allocate
// them or, for a new pod, if they are in use.
func (p *placer) requestedAddresses(r ledger.Reader, pod *corev1.Pod, at place, isNew bool) (v4, v6 netip.Addr, err error) {
	if mac := pod.Annotations[macAnnotation]; mac != "" {
		return v4, v6, refuse(addressInvalid, "pod %s/%s asks for hardware address %.64q: those follow from addresses of IP, ask for one by %s",
			pod.Namespace, pod.Name, mac, mastercfg.IPv4Annotation)
	}
	for _, one := range []struct {
		annotation string
		addr       *netip.Addr
	}{{mastercfg.IPv4Annotation, &v4}, {mastercfg.IPv6Annotation, &v6}} { // in this order, so that the same error is reported each time
		annotation, addr := one.annotation, one.addr
		text := pod.Annotations[annotation]
		if text == "" {
			continue
		}
		if *addr, err = netip.ParseAddr(text); err != nil || addr.Is4() != (addr == &v4) || addr.Zone() != "" {
			return v4, v6, refuse(addressInvalid, "pod %s/%s: %s is %.64q: want an address such as 10.1.2.3, or fd00::3 for %s",
				pod.Namespace, pod.Name, annotation, text, mastercfg.IPv6Annotation)
		}
		if err := p.checkRequestedAddress(r, pod, at, *addr, annotation, isNew); err != nil {
			return v4, v6, err
		}
	}
	return v4, v6, nil
}

// checkRequestedAddress refuses an address of a pod's annotation that an ADD would not get. A running pod has
// an address already: for it, an address in use is not refused.
func (p *placer) checkRequestedAddress(r ledger.Reader, pod *corev1.Pod, at place, addr netip.Addr, annotation string, isNew bool) error {
	network, group := mastercfg.NetworkID(at.tenant, at.network), ""
	if isNew && at.group != "" {
		group = mastercfg.EndpointGroupID(at.tenant, at.group)
	}
	why, inUse, err := master.Refuses(r, network, group, addr)
	switch {
	case err != nil:
		return err
	case why != nil && !inUse && !networkHasFamily(r, at, addr):
		return refuse(addressInvalid, "pod %s/%s: %s: leave %s out, or choose another network than %s of tenant %s",
			pod.Namespace, pod.Name, fault.Explain(why), annotation, at.network, at.tenant)
	case why != nil && !inUse:
		return refuse(addressInvalid, "pod %s/%s: %s: let %s ask for another one of network %s of tenant %s",
			pod.Namespace, pod.Name, fault.Explain(why), annotation, at.network, at.tenant)
	case !isNew:
		return nil
	}
	holder, taken, err := master.EndpointAt(r, network, addr)
	switch {
	case err != nil:
		return err
	case taken && p.isDeleted(holder):
		return refuse(addressInUse, "pod %s/%s asks for %s, which pod %s/%s had, that was deleted while node %s was away: start the node, or remove it by kubectl delete node %s and, if it joined with a token, netctl node rm %s, or let %s ask for another one",
			pod.Namespace, pod.Name, addr, holder.PodNamespace, holder.EPCommonName, holder.HomingHost, holder.HomingHost, holder.HomingHost, annotation)
	case taken:
		return refuse(addressInUse, "pod %s/%s asks for %s, which %s on node %s has: delete that, or let %s ask for another one",
			pod.Namespace, pod.Name, addr, holder.EPCommonName, holder.HomingHost, annotation)
	case why != nil:
		return refuse(addressInUse, "pod %s/%s: %s: let %s ask for another one", pod.Namespace, pod.Name, fault.Explain(why), annotation)
	}
	other, err := p.otherRequester(r, pod, network, addr)
	if err != nil || other == nil {
		return err
	}
	return refuse(addressInUse, "pod %s/%s asks for %s, which pod %s/%s on node %s asks for, too: delete that, or let %s ask for another one",
		pod.Namespace, pod.Name, addr, other.Namespace, other.Name, other.Spec.NodeName, annotation)
}

// isDeleted reports whether an endpoint is of a pod that Kubernetes does not have any more. The node of the pod deletes
// the endpoint, which it cannot while it is away.
func (p *placer) isDeleted(e mastercfg.CfgEndpointState) bool {
	if e.PodUID == "" {
		return false
	}
	pod, err := p.pods.Pods(e.PodNamespace).Get(e.EPCommonName)
	return apierrors.IsNotFound(err) || err == nil && uidOf(pod) != e.PodUID
}

// networkHasFamily reports whether a network has a subnet of the IP family of an address.
func networkHasFamily(r ledger.Reader, at place, addr netip.Addr) bool {
	asked := contivmodel.Network{TenantName: at.tenant, NetworkName: at.network}
	n, err := ledger.Read[contivmodel.Network](r, mastercfg.ModelKey(asked.ModelType(), asked.ModelKey()))
	return err != nil || master.SubnetLike(&n, netip.PrefixFrom(addr, addr.BitLen())) != ""
}

// waitsForAddress reports whether a pod was placed with a requested address and has no endpoint yet. It is false if
// the endpoint cannot be read.
func waitsForAddress(r ledger.Reader, pod *corev1.Pod, record mastercfg.K8sPod) bool {
	if record.Tenant == "" || !record.IPv4.IsValid() && !record.IPv6.IsValid() || len(pod.Status.PodIPs) > 0 || isFinished(pod) {
		return false
	}
	_, started, err := master.PodEndpoint(r, pod.Spec.NodeName, record.UID)
	return err == nil && !started
}

// lostItsAddress reports whether a pod without an endpoint was placed with an address that is not allocated any
// more: its network or group was recreated with another range. If network or group do not exist, the result is
// false: the pod is refused for that.
func lostItsAddress(r ledger.Reader, pod *corev1.Pod, record mastercfg.K8sPod) (bool, error) {
	if !waitsForAddress(r, pod, record) {
		return false, nil
	}
	for _, addr := range []netip.Addr{record.IPv4, record.IPv6} {
		if !addr.IsValid() {
			continue
		}
		why, inUse, err := master.Refuses(r, mastercfg.NetworkID(record.Tenant, record.Network), groupID(record), addr)
		if fault.Is(err, fault.NotFound) {
			return false, nil
		}
		if err != nil || why != nil && !inUse {
			return err == nil, err
		}
	}
	return false, nil
}

// otherRequester returns another placed pod that requests the same address of a network; nil: there is none.
func (p *placer) otherRequester(r ledger.Reader, pod *corev1.Pod, network string, addr netip.Addr) (*corev1.Pod, error) {
	for _, key := range master.PodsThatAsk(r, network, addr) {
		record, err := ledger.Read[mastercfg.K8sPod](r, key)
		if err != nil {
			return nil, err
		}
		other, err := p.pods.Pods(record.Namespace).Get(record.Name)
		if err == nil && uidOf(other) == record.UID && record.UID != uidOf(pod) && !isFinished(other) {
			return other, nil // the others are deleted or finished
		}
	}
	return nil, nil
}
