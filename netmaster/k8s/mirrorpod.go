package k8s

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Annotations of a mirror pod, the API server's copy of a static pod: the mark of a copy, and the UID by which
// kubelet knows the pod. Both have the same value, a hash.
const (
	mirrorAnnotation = "kubernetes.io/config.mirror"
	hashAnnotation   = "kubernetes.io/config.hash"
)

// isMirror reports whether a pod is the copy of a static pod.
func isMirror(pod *corev1.Pod) bool {
	hash := pod.Annotations[hashAnnotation]
	return mastercfg.IsHash(hash) && pod.Annotations[mirrorAnnotation] == hash
}

func uidOf(pod *corev1.Pod) string {
	if isMirror(pod) {
		return pod.Annotations[hashAnnotation]
	}
	return string(pod.UID)
}

// mirrorMisplaced describes the remedy for a static pod whose place differs from
// that of its mirror pod; empty: it does not. The static pod may have started before
// the mirror pod existed, and kubelet does not know the labels of the namespace.
func mirrorMisplaced(r ledger.Reader, pod *corev1.Pod, namespace *corev1.Namespace, is mastercfg.K8sPod, choice TenantChoice) string {
	if !isMirror(pod) {
		return ""
	}
	at, err := placement(pod, namespace, choice, func(tenant, group string) (string, error) { return networkOf(r, tenant, group) })
	where := fmt.Sprintf("network %s of tenant %s", at.network, at.tenant)
	switch {
	case err != nil:
		where = "another place: " + err.Error()
	case at.tenant == is.Tenant && at.network == is.Network:
		return ""
	}
	return fmt.Sprintf("%s: static pod %s/%s is in network %s of tenant %s, and belongs into %s; take its file away for a while, and it starts there",
		needsRestart, pod.Namespace, pod.Name, is.Network, is.Tenant, where)
}

// placedBefore returns the place of a static pod that has started without a mirror pod; without a tenant: it has not.
func placedBefore(r ledger.Reader, pod *corev1.Pod) (at mastercfg.K8sPod, err error) {
	ep, there, err := master.PodEndpoint(r, pod.Spec.NodeName, uidOf(pod))
	if !there || ep.PodNamespace != pod.Namespace || ep.EPCommonName != pod.Name {
		return at, err
	}
	network, err := ledger.Read[mastercfg.CfgNetworkState](r, mastercfg.NetworkPrefix+ep.NetID)
	if err != nil {
		return at, err
	}
	at.Tenant, at.Network, at.Group = network.Tenant, network.NetworkName, ep.ServiceName
	if pod.Annotations[mastercfg.IPv4Annotation] == ep.IPAddress {
		at.IPv4, _ = netip.ParseAddr(ep.IPAddress) // otherwise it has none
	}
	if pod.Annotations[mastercfg.IPv6Annotation] == ep.IPv6Address {
		at.IPv6, _ = netip.ParseAddr(ep.IPv6Address)
	}
	return at, nil
}
