package k8s

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// placer writes the records of pods.
type placer struct {
	*Controller
	policies   *policies
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	refused    refusalEvents // of pods that are not placed

	mu      sync.Mutex
	records map[string]map[string]struct{} // keys of a pod's records, by namespace/name
}

// When a refused pod is checked again: the group that it wants may
// exist then. The time is a tenth of its age, within these limits.
const (
	refusedFirst = 3 * time.Second
	refusedLast  = time.Minute
)

// podReconciler keeps a record of every pod that is bound to a node and has a network of its own.
func (c *Controller) podReconciler(policies *policies) *reconciler {
	core := c.informers.Core().V1()
	p := &placer{
		Controller: c, policies: policies, pods: core.Pods().Lister(), namespaces: core.Namespaces().Lister(),
		records: map[string]map[string]struct{}{},
	}
	return &reconciler{
		kind: "pod", workers: manyWorkers, known: p.known, reconcile: p.place,
		follows: []followed{
			{informer: core.Pods().Informer(), concerns: byName},
			{informer: core.Namespaces().Informer(), concerns: within(core.Pods().Informer())},
		},
	}
}

// known returns the pods with records, and remembers their keys.
func (p *placer) known(r ledger.Reader) (pods []string, err error) {
	err = ledger.ReadEach(r, mastercfg.K8sPodPrefix, func(key string, record mastercfg.K8sPod) error {
		p.noteRecord(record.Pod(), key)
		pods = append(pods, record.Pod())
		return nil
	})
	return pods, err
}

// noteRecord remembers the key of a pod's record.
func (p *placer) noteRecord(pod, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.records[pod] == nil {
		p.records[pod] = map[string]struct{}{}
	}
	p.records[pod][key] = struct{}{}
}

// forgetRecord forgets the key of a pod's deleted record.
func (p *placer) forgetRecord(pod, key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if delete(p.records[pod], key); len(p.records[pod]) == 0 {
		delete(p.records, pod)
	}
}

// recordsOf lists the keys of a pod's records.
func (p *placer) recordsOf(pod string) (keys []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.records[pod] {
		keys = append(keys, key)
	}
	return keys
}

// place updates the records of a pod.
func (p *placer) place(ctx context.Context, name string) (again time.Duration, err error) {
	open, err := p.settle(ctx, name)
	if pod, _, lost := p.lookUp(name); open && lost == nil && pod != nil {
		again = refusedAgain(pod.CreationTimestamp.Time, time.Now())
	}
	return again, err
}

func refusedAgain(created, now time.Time) time.Duration {
	if created.IsZero() {
		return refusedFirst
	}
	return min(max(now.Sub(created)/10, refusedFirst), refusedLast)
}

// settle updates the records of a pod. open reports whether the result may change though the pod does not: a part
// of its request was refused, or a promised address is not its own yet.
func (p *placer) settle(ctx context.Context, name string) (open bool, err error) {
	pod, namespace, err := p.lookUp(name)
	if err != nil {
		return false, err
	}
	var wanted string // key
	if pod == nil {
		p.warnings.clear(podKey(name))
		p.refused.forget(name)
	} else {
		wanted = mastercfg.K8sPodKey(pod.Spec.NodeName, uidOf(pod))
		p.noteRecord(name, wanted)
	}
	keys := p.recordsOf(name)
	if len(keys) == 0 {
		return false, nil
	}
	if pod != nil && slices.Equal(keys, []string{wanted}) {
		settled, open, err := p.settled(wanted, pod, namespace)
		if settled || err != nil {
			return open, err
		}
	}
	var written recordChange
	_, err = p.ledger.Update(ctx, func(tx *ledger.Tx) (err error) {
		for _, key := range keys {
			if key != wanted && isOf(tx, key, name) {
				tx.Delete(key)
			}
		}
		if pod != nil {
			written, err = p.write(tx, wanted, pod, namespace)
		}
		return err
	})
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if key != wanted {
			p.forgetRecord(name, key)
		}
	}
	if written.now.Reason == "" && !written.now.Classed {
		p.policies.unclassed(name)
	}
	p.reportEvents(pod, written.before, written.now)
	return written.open, nil
}

// recordChange is what write found and wrote.
type recordChange struct {
	before, now mastercfg.K8sPod
	open        bool // see isOpen
}

// write updates the record of a pod, and moves its endpoint to the group that the record names.
func (p *placer) write(tx *ledger.Tx, key string, pod *corev1.Pod, namespace *corev1.Namespace) (done recordChange, err error) {
	done.before, err = ledger.Read[mastercfg.K8sPod](tx, key)
	if err == nil && done.before.Pod() != pod.Namespace+"/"+pod.Name {
		return done, fmt.Errorf("record %s is of pod %s", key, done.before.Pod()) // another pod with this UID
	}
	if done.now, err = p.record(tx, pod, namespace, done.before); err != nil {
		return done, err
	}
	done.open = isOpen(tx, pod, done.now)
	if ep, differs := misplaced(tx, pod, done.now); differs {
		if err := master.MoveEndpoint(tx, ep, groupID(done.now)); err != nil {
			return done, err
		}
	}
	if reflect.DeepEqual(done.now, done.before) {
		return done, nil
	}
	return done, ledger.Write(tx, key, done.now)
}

// isOpen reports whether a record is to be checked again though its pod does not change.
func isOpen(r ledger.Reader, pod *corev1.Pod, record mastercfg.K8sPod) bool {
	return !isFinished(pod) && (record.Reason != "" || record.Later != "" || waitsForAddress(r, pod, record))
}

// settled reports whether a pod's record is up to date, as it is after most events: then no plan is needed, which
// others would wait for. A refusal may have to be reported again.
func (p *placer) settled(key string, pod *corev1.Pod, namespace *corev1.Namespace) (settled, open bool, err error) {
	var now mastercfg.K8sPod
	err = p.ledger.View(func(r ledger.Reader) error {
		before, err := ledger.Read[mastercfg.K8sPod](r, key)
		if err != nil || before.Pod() != pod.Namespace+"/"+pod.Name {
			return nil
		}
		if now, err = p.record(r, pod, namespace, before); err != nil {
			return err
		}
		_, differs := misplaced(r, pod, now)
		settled, open = !differs && reflect.DeepEqual(now, before), isOpen(r, pod, now)
		return nil
	})
	if settled && err == nil {
		p.reportEvents(pod, now, now)
	}
	return settled, open, err
}

// isOf reports whether the record of a key belongs to a pod; true for a damaged record.
func isOf(r ledger.Reader, key, pod string) bool {
	record, err := ledger.Read[mastercfg.K8sPod](r, key)
	return err != nil || record.Pod() == pod
}

// lookUp returns a pod and its namespace; nil: the pod must have no record.
func (p *placer) lookUp(name string) (*corev1.Pod, *corev1.Namespace, error) {
	namespace, short, err := cache.SplitMetaNamespaceKey(name)
	if err != nil {
		return nil, nil, err
	}
	pod, err := p.pods.Pods(namespace).Get(short)
	if apierrors.IsNotFound(err) || err == nil && (pod.Spec.NodeName == "" || pod.Spec.HostNetwork) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	ns, err := p.namespaces.Get(namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("namespace %s: %w", namespace, err) // it arrives by another watch
	}
	return pod, ns, nil
}

// networkOf returns the network of a group.
func networkOf(r ledger.Reader, tenant, group string) (string, error) {
	g, err := master.Get[contivmodel.EndpointGroup](r, tenant+":"+group,
		refuse("GroupNotFound", "tenant %s has no group %s: netctl group create -t %s NETWORK %s", tenant, group, tenant, group))
	if err != nil {
		return "", err
	}
	return g.NetworkName, nil
}

// exists refuses a missing tenant or network, and a tenant that does not admit the namespace.
func exists(r ledger.Reader, at place, namespace string) error {
	tenant, err := master.Get[contivmodel.Tenant](r, at.tenant, refuse("TenantNotFound", "there is no tenant %s: netctl tenant create %s", at.tenant, at.tenant))
	if err != nil {
		return err
	}
	if !tenant.Admits(namespace) {
		return refuse("TenantNotAllowed", "tenant %s is for pods of namespaces %.200s, and not for those of %s: netctl tenant update %s --namespaces NAMES has others",
			at.tenant, tenant.Namespaces, namespace, at.tenant)
	}
	network, err := master.GetShared[contivmodel.Network](r, at.tenant+":"+at.network,
		refuse("NetworkNotFound", "tenant %s has no network %s: netctl network create -t %s -s SUBNET -g GATEWAY %s", at.tenant, at.network, at.tenant, at.network))
	if err != nil {
		return err
	}
	return notOfNodes(r, network)
}

// notOfNodes refuses the network in which nodes have the addresses that policies know them by: whoever writes a pod
// would choose to be let in where nodes are. In forwarding mode bridge, nodes reach only pods that are in it.
func notOfNodes(r ledger.Reader, n *contivmodel.Network) error {
	if n.NetworkName != mastercfg.AccessNetwork || n.NwType != "infra" {
		return nil
	}
	global, err := ledger.Read[contivmodel.Global](r, mastercfg.ModelKey("global", contivmodel.GlobalName))
	if err != nil && !fault.Is(err, fault.NotFound) || global.FwdMode == "bridge" {
		return err
	}
	return refuse("NetworkOfNodes", "network %s of tenant %s is that of the nodes: leave %s out, or name another network or group", n.NetworkName, n.TenantName, mastercfg.NetworkLabel)
}
