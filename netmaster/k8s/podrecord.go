package k8s

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// record returns the record of a pod: its place, or why it has none. A running pod keeps its place, except for its
// group.
func (p *placer) record(r ledger.Reader, pod *corev1.Pod, namespace *corev1.Namespace, before mastercfg.K8sPod) (mastercfg.K8sPod, error) {
	before, err := formerPlace(r, pod, before)
	if err != nil {
		return mastercfg.K8sPod{}, err
	}
	record, at, err := p.requested(r, pod, namespace, before)
	var refused *refusal
	if err != nil && !errors.As(err, &refused) {
		return record, err
	}
	switch {
	case before.Tenant != "":
		record.Later = stay(r, pod, &record, before, at, refused)
		if record.Later == "" {
			record.Later = mirrorMisplaced(r, pod, namespace, before, p.cfg.Choice)
		}
	case refused != nil:
		record.Reason, record.Message = refused.reason, refused.message
	default:
		record.Tenant, record.Network, record.Group = at.tenant, at.network, at.group
		record.Class, record.Classed = p.policies.classOf(pod)
	}
	return record, nil
}

// formerPlace returns the record with the present place of a pod; without a tenant it has none. A static pod
// may have got one before its mirror pod existed. A pod that has not started, and could not get its promised
// address any more, is placed again.
func formerPlace(r ledger.Reader, pod *corev1.Pod, before mastercfg.K8sPod) (mastercfg.K8sPod, error) {
	if before.Tenant == "" && isMirror(pod) {
		var err error
		if before, err = placedBefore(r, pod); err != nil {
			return before, err
		}
	}
	lost, err := lostItsAddress(r, pod, before)
	if lost {
		before = mastercfg.K8sPod{}
	}
	return before, err
}

// requested returns what a pod and its namespace request at present: the place, and a record with all other fields.
// The error is a refusal if the pod cannot have that. A bandwidth or profile that cannot be parsed keeps the former
// value.
func (p *placer) requested(r ledger.Reader, pod *corev1.Pod, namespace *corev1.Namespace, before mastercfg.K8sPod) (record mastercfg.K8sPod, at place, err error) {
	record = mastercfg.K8sPod{Namespace: pod.Namespace, Name: pod.Name, UID: uidOf(pod), Grace: graceOf(pod), Probed: isProbed(pod)}
	isNew, ofPlace := before.Tenant == "", namespace
	if !isNew {
		ofPlace = namespaceAtPlacement(pod, namespace, before)
	}
	at, err = placement(pod, ofPlace, p.cfg.Choice, func(tenant, group string) (string, error) {
		return networkOf(r, tenant, group)
	})
	if err == nil {
		err = exists(r, at, pod.Namespace)
	}
	if err == nil {
		record.IPv4, record.IPv6, err = p.requestedAddresses(r, pod, at, isNew)
	}
	var badPort, badRate, badProfile error
	record.HostPorts, badPort = hostPorts(pod)
	if record.Ingress, record.Egress, badRate = bandwidthOf(pod); badRate != nil {
		record.Ingress, record.Egress = before.Ingress, before.Egress
	}
	if record.Profile, badProfile = profileOf(r, pod, namespace, cmp.Or(before.Tenant, at.tenant)); badProfile != nil {
		record.Profile = before.Profile
	}
	return record, at, cmp.Or(err, badPort, badRate, badProfile)
}

// stay sets the place in the record of a running pod: it keeps tenant, network and addresses; only the group
// may change. It returns why the pod does not get all that it requests; empty: it does.
func stay(r ledger.Reader, pod *corev1.Pod, record *mastercfg.K8sPod, before mastercfg.K8sPod, at place, refused *refusal) (later string) {
	if refused == nil {
		refused = checkUnchanged(pod, before, *record, at)
	}
	record.Tenant, record.Network, record.IPv4, record.IPv6 = before.Tenant, before.Network, before.IPv4, before.IPv6
	record.Class, record.Classed = before.Class, before.Classed // policies write these
	var keeps *refusal
	record.Group, keeps = groupOf(r, pod, *record, before.Group, at)
	if refused == nil {
		refused = keeps
	}
	if refused == nil {
		return ""
	}
	return refused.reason + ": " + refused.message
}

// graceOf returns the grace period of a pod in seconds. A pod that is force-deleted has it as well, though the
// API server removes it at once. 0: unknown, for mirror pods (by their annotation).
func graceOf(pod *corev1.Pod) int64 {
	if pod.Annotations[mirrorAnnotation] != "" {
		return 0
	}
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if asked := pod.Spec.TerminationGracePeriodSeconds; asked != nil {
		grace = *asked
	}
	if asked := pod.DeletionGracePeriodSeconds; asked != nil {
		grace = max(grace, *asked)
	}
	return max(grace, 1)
}

// groupOf returns the group of a running pod: the requested one if it belongs to the pod's network and its range has
// the pod's address, even if other parts of the request are refused; otherwise the former one, with a refusal.
func groupOf(r ledger.Reader, pod *corev1.Pod, record mastercfg.K8sPod, before string, at place) (string, *refusal) {
	if at.tenant != record.Tenant || at.network != record.Network {
		return before, nil // checkUnchanged refuses it
	}
	record.Group = at.group
	if ep, differs := misplaced(r, pod, record); differs {
		if err := master.Takes(r, &ep, groupID(record)); err != nil {
			return before, &refusal{needsRestart, fmt.Sprintf("pod %s stays in group %q: %v; delete the pod to have another address", record.Pod(), before, err)}
		}
	}
	return at.group, nil
}

// namespaceAtPlacement returns the namespace with the tenant and network that it had when a pod was placed:
// for running pods only changes of the group count.
func namespaceAtPlacement(pod *corev1.Pod, namespace *corev1.Namespace, before mastercfg.K8sPod) *corev1.Namespace {
	ofPod, ofNamespace := []map[string]string{pod.Annotations, pod.Labels}, []map[string]string{namespace.Annotations, namespace.Labels}
	home, group := tenantOfNamespace(namespace), first(mastercfg.GroupLabel, ofNamespace)
	switch {
	case home == before.Tenant:
	case first(mastercfg.TenantLabel, ofPod) != "":
		group = "" // it belongs to another tenant
	default:
		group = before.Group
	}
	words := map[string]string{
		mastercfg.TenantLabel: before.Tenant, mastercfg.GroupLabel: group,
		allowedKey: namespace.Annotations[allowedKey] + "," + home,
	}
	if group == "" && first(mastercfg.GroupLabel, ofPod) == "" {
		words[mastercfg.NetworkLabel] = before.Network // otherwise that of the group
	}
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace.Name, Annotations: words}}
}

const needsRestart = "PlacementNeedsRestart"

// checkUnchanged refuses changes that a running pod cannot get: of tenant, network and addresses, because
// kubelet does not change the address of a pod.
func checkUnchanged(pod *corev1.Pod, before, wanted mastercfg.K8sPod, at place) *refusal {
	if at.tenant == before.Tenant && at.network == before.Network && wanted.IPv4 == before.IPv4 && wanted.IPv6 == before.IPv6 {
		return nil
	}
	return &refusal{needsRestart, fmt.Sprintf("pod %s/%s stays in network %s of tenant %s with the address it has: delete the pod for what is asked for since",
		pod.Namespace, pod.Name, before.Network, before.Tenant)}
}

// misplaced returns a pod's endpoint if it is in another group than that of the record.
func misplaced(r ledger.Reader, pod *corev1.Pod, record mastercfg.K8sPod) (ep mastercfg.CfgEndpointState, differs bool) {
	if record.Tenant == "" || isFinished(pod) {
		return ep, false // another pod may have its address by now
	}
	for _, at := range pod.Status.PodIPs {
		addr, err := netip.ParseAddr(at.IP)
		if err != nil {
			continue
		}
		ep, there, err := master.EndpointAt(r, mastercfg.NetworkID(record.Tenant, record.Network), addr)
		itsOwn := ep.PodUID == record.UID || ep.PodUID == "" && ep.EPCommonName == pod.Name // earlier versions did not record the UID
		if err == nil && there && itsOwn && ep.HomingHost == pod.Spec.NodeName {
			return ep, ep.EndpointGroupKey != groupID(record)
		}
	}
	return ep, false
}

// groupID returns the state id of a pod's group; empty: none.
func groupID(record mastercfg.K8sPod) string {
	if record.Group == "" {
		return ""
	}
	return mastercfg.EndpointGroupID(record.Tenant, record.Group)
}

// reportEvents writes events about the changes of a record. A refusal is reported again after a time, and by
// each new leader: the pod still waits, and events expire.
func (p *placer) reportEvents(pod *corev1.Pod, before, now mastercfg.K8sPod) {
	if now.Reason == "" || isFinished(pod) { // a finished pod waits for nothing
		p.refused.forget(now.Pod())
	} else if p.refused.due(now.Pod(), time.Now(), now.Message != before.Message) {
		p.event(pod, corev1.EventTypeWarning, now.Reason, "Place", now.Message)
	}
	if reason, message, _ := strings.Cut(now.Later, ": "); now.Later != "" && now.Later != before.Later {
		p.event(pod, corev1.EventTypeWarning, reason, "Place", message)
	}
	if before.Tenant != "" && now.Tenant != "" && before.Group != now.Group {
		p.event(pod, corev1.EventTypeNormal, "GroupMoved", "Place", fmt.Sprintf("pod %s moved from group %q to %q of tenant %s, and keeps its address",
			now.Pod(), before.Group, now.Group, now.Tenant))
	}
}
