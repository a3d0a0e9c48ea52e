package k8s

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	corelisters "k8s.io/client-go/listers/core/v1"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/contiv/netplugin/netmaster/classes"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// policies keeps the classes of pods, and the rules between classes, in line with the policies (package classes).
//
// Its keys are the inputs of the engine: a pod, a namespace, a policy; and last,
// writeAll, which writes everything that follows from them. All inputs that are
// queued at the time come first, so many concurrent changes are one transaction.
type policies struct {
	*Controller
	*reconciler
	pods       corelisters.PodLister
	namespaces corelisters.NamespaceLister
	nodes      corelisters.NodeLister
	network    networkinglisters.NetworkPolicyLister
	cluster    *clusterPolicies

	reportEvery time.Duration
	epochFloor  uint32 // lower limit of this term's epochs: its start in seconds since 1970, which earlier terms have not reached

	mu           lock
	engine       *classes.Engine
	anyPod       bool                // rules about any pod are written (anypod.go)
	recorded     map[string]recorded // classes that earlier terms have written for pods, by record key
	clusterSpecs map[string]spec     // ClusterNetworkPolicies in the engine, by name
	versions     map[string]version  // namespaces and NetworkPolicies in the engine, by key
	ranks        map[string]rank     // of ClusterNetworkPolicies in the engine, by name
	written      map[string]spec     // clusterSpecs of the last write; nil: nothing was written yet
}

// recorded is the class in the record of a pod.
type recorded struct {
	class   uint16
	classed bool
}

// Prefixes of keys.
const (
	ofPod           = "pod/"
	ofUnclassed     = "unclassed/"
	ofNamespace     = "namespace/"
	ofNetworkPolicy = "networkpolicy/"
	ofClusterPolicy = "clusternetworkpolicy/"
	ofNodes         = "nodes/" // all nodes, as peers
	writeAll        = "write"
)

func (c *Controller) newPolicies() *policies {
	core, networking := c.informers.Core().V1(), c.informers.Networking().V1()
	p := &policies{
		Controller: c, pods: core.Pods().Lister(), namespaces: core.Namespaces().Lister(), nodes: core.Nodes().Lister(),
		network:     networking.NetworkPolicies().Lister(),
		reportEvery: cmp.Or(c.cfg.ReportEvery, reportEvery), epochFloor: master.EpochFloor(time.Now()),
		mu: newLock(), engine: classes.New(), recorded: map[string]recorded{},
		clusterSpecs: map[string]spec{}, versions: map[string]version{}, ranks: map[string]rank{},
	}
	p.cluster = &clusterPolicies{
		server: discovery.ToServerResourcesInterfaceWithContext(c.cfg.Client.Discovery()),
		client: c.cfg.PolicyClient, every: cmp.Or(c.cfg.KindEvery, kindEvery),
		changed: func(name string) { p.queue.Add(ofClusterPolicy + name) },
		written: p.hasClusterPolicies, log: c.cfg.Log,
	}
	p.reconciler = &reconciler{
		kind: "policy", workers: 1, known: p.adopt, reconcile: p.reconcileKey,
		follows: []followed{
			{informer: core.Namespaces().Informer(), concerns: prefixed(ofNamespace)},
			{informer: networking.NetworkPolicies().Informer(), concerns: prefixed(ofNetworkPolicy)},
			{informer: core.Nodes().Informer(), concerns: func(any) []string { return []string{ofNodes} }},
			{informer: core.Pods().Informer(), concerns: prefixed(ofPod)},
		},
	}
	return p
}

func prefixed(kind string) func(any) []string {
	return func(object any) (keys []string) {
		for _, name := range byName(object) {
			keys = append(keys, kind+name)
		}
		return keys
	}
}

// adopt reads what is written, and queues all of it. Nothing is written before the engine has every object:
// records of objects that it lacks would be removed.
func (p *policies) adopt(r ledger.Reader) (keys []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.engine.RevisitAll()
	clear(p.recorded)
	err = ledger.ReadEach(r, mastercfg.K8sPodPrefix, func(key string, record mastercfg.K8sPod) error {
		p.recorded[key] = recorded{record.Class, record.Classed}
		return nil
	})
	if err == nil {
		r.Range(mastercfg.K8sClassPrefix, func(key string, _ []byte) bool {
			number, err := strconv.ParseUint(strings.TrimPrefix(key, mastercfg.K8sClassPrefix), 10, 16)
			if err == nil { // otherwise it is a stray
				p.engine.Recorded(uint16(number))
			}
			return true
		})
		r.Range(mastercfg.K8sPolicyPrefix, func(key string, value []byte) bool {
			keys = append(keys, strings.TrimPrefix(key, mastercfg.K8sPolicyPrefix))
			p.anyPod = p.anyPod || p.written == nil && isAboutAnyPod(value)
			return true
		})
		p.engine.UseAnyPod(p.anyPod)
	}
	for _, policy := range p.cluster.list() {
		keys = append(keys, ofClusterPolicy+policy.Name)
	}
	if err == nil && p.written == nil {
		err = p.updateSelecting()
	}
	return append(keys, writeAll), err
}

// updateSelecting puts all objects that may select pods into the engine. It runs before the first pod, whatever
// is queued: a pod whose selecting objects the engine lacks would lose its written class.
func (p *policies) updateSelecting() error {
	for _, f := range p.follows {
		for _, object := range f.informer.GetStore().List() {
			for _, key := range f.concerns(object) {
				if key == ofNodes || strings.HasPrefix(key, ofPod) { // policies with nodes as peers follow
					continue
				}
				if err := p.updateEngine(key); err != nil {
					return err
				}
			}
		}
	}
	for _, policy := range p.cluster.list() {
		if err := p.updateClusterPolicy(policy.Name); err != nil {
			return err
		}
	}
	return nil
}

// hasClusterPolicies reports whether the state has policies of the kind.
func (p *policies) hasClusterPolicies() (has bool) {
	_ = p.ledger.View(func(r ledger.Reader) error { // the following audit reports unreadable records
		r.Range(mastercfg.K8sPolicyPrefix+ofClusterPolicy, func(string, []byte) bool {
			has = true
			return false
		})
		return nil
	})
	return has
}

// reconcileKey updates the object of a key in the engine, or writes the rules.
func (p *policies) reconcileKey(ctx context.Context, key string) (again time.Duration, err error) {
	if key == writeAll {
		return 0, p.write(ctx)
	}
	p.mu.Lock()
	err = p.updateEngine(key)
	p.mu.Unlock()
	p.enqueue(writeAll)
	return 0, err
}

// updateEngine sets or removes an object in the engine, from the present caches.
func (p *policies) updateEngine(key string) error {
	kind, name, _ := strings.Cut(key, "/")
	kind += "/"
	namespace, short, err := cache.SplitMetaNamespaceKey(name)
	if err != nil {
		kind = "" // no object has such a name
	}
	switch kind {
	case ofNamespace:
		return p.updateNamespace(key, name)
	case ofPod:
		return p.updatePod(namespace, short)
	case ofUnclassed:
		return p.revisitPod(namespace, short)
	case ofNetworkPolicy:
		return p.updateNetworkPolicy(key, namespace, short)
	case ofClusterPolicy:
		return p.updateClusterPolicy(name)
	case ofNodes:
		p.updateNodes()
	default:
		p.engine.RemovePolicy(key) // rules without a policy
	}
	return nil
}

func (p *policies) updateNamespace(key, name string) error {
	n, err := p.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		p.engine.RemoveNamespace(name)
		delete(p.versions, key)
		return nil
	}
	if err == nil {
		p.engine.SetNamespace(name, n.Labels)
		p.versions[key] = versionOf(n)
	}
	return err
}

func (p *policies) updatePod(namespace, name string) error {
	pod, err := p.pods.Pods(namespace).Get(name)
	if apierrors.IsNotFound(err) || err == nil && !isJudged(pod) {
		p.engine.RemovePod(namespace, name)
		return nil
	}
	if err == nil {
		p.enter(pod)
	}
	return err
}

// revisitPod is updatePod for a pod that was placed without its class: that is written even if it has not changed.
func (p *policies) revisitPod(namespace, name string) error {
	err := p.updatePod(namespace, name)
	p.engine.Revisit(namespace, name)
	return err
}

func (p *policies) updateNetworkPolicy(key, namespace, name string) error {
	policy, err := p.network.NetworkPolicies(namespace).Get(name)
	if apierrors.IsNotFound(err) {
		p.engine.RemovePolicy(key)
		p.warnings.clear(key)
		delete(p.versions, key)
		return nil
	}
	if err == nil {
		meaning, doubts := networkPolicy(policy)
		p.engine.SetPolicy(key, meaning)
		p.versions[key] = versionOf(policy)
		p.warn(policy, key, "PolicyUnsupported", "Translate", allowsNothing(doubts))
	}
	return err
}

// isJudged reports whether policies can apply to a pod: it has a
// network of its own, is bound to a node and has not finished.
func isJudged(pod *corev1.Pod) bool {
	return !pod.Spec.HostNetwork && pod.Spec.NodeName != "" && !isFinished(pod)
}

func (p *policies) enter(pod *corev1.Pod) {
	known := classPod(pod)
	known.UID = uidOf(pod)
	// A pod whose namespace is unknown has no tenant until the next audit, or until it changes: the API server
	// has every namespace before its pods, and the informers are complete before the engine is used.
	if namespace, err := p.namespaces.Get(pod.Namespace); err == nil {
		known.Tenant = cmp.Or(first(mastercfg.TenantLabel, []map[string]string{pod.Annotations, pod.Labels}), tenantOfNamespace(namespace))
	}
	before := p.recorded[mastercfg.K8sPodKey(pod.Spec.NodeName, uidOf(pod))] // not of an earlier pod with its name
	known.Recorded, known.Classed = before.class, before.classed
	p.engine.SetPod(pod.Namespace, pod.Name, known)
}

// allowsNothing describes the parts of a NetworkPolicy that were not understood; empty: there are none.
func allowsNothing(doubts []string) string {
	if len(doubts) == 0 {
		return ""
	}
	return strings.Join(doubts, "; ") + ": that allows nothing"
}

// reportChanges reports policies that were written and cannot be enforced as a whole.
func (p *policies) reportChanges(changes classes.Changes) {
	for id := range changes.Policies {
		policy, err := p.policy(id)
		if err != nil { // it was deleted meanwhile
			p.warnings.clear(id)
			continue
		}
		left, strangers := p.engine.Holds(id)
		large, strange := changes.TooLarge[id], ""
		if left {
			large = fmt.Sprintf("policies have more than %d rules about pods that this one selects, and it allows these pods nothing: "+
				"let one rule say what several do", classes.MaxRules)
		}
		if len(strangers) > 0 {
			strange = fmt.Sprintf("peers are of tenant %s, and none of the pods that this policy selects: "+
				"pods of different tenants do not reach each other", strings.Join(strangers, ", "))
		}
		p.warn(policy, id, "PolicyTooLarge", "Translate", large)
		p.warn(policy, id, "PeerInOtherTenant", "Translate", strange)
	}
}

// policy returns a policy by its id.
func (p *policies) policy(id string) (runtime.Object, error) {
	if name, ours := strings.CutPrefix(id, ofClusterPolicy); ours {
		return p.cluster.get(name)
	}
	namespace, name, _ := strings.Cut(strings.TrimPrefix(id, ofNetworkPolicy), "/")
	return p.network.NetworkPolicies(namespace).Get(name)
}

// classSoon is how long the placement of a pod waits for its class, and for all that is written with it.
const classSoon = 10 * time.Millisecond

// classOf returns the class of a pod that is about to be placed. If it is not known soon enough, the pod is
// isolated, and unclassed queues it to be written later.
func (p *policies) classOf(pod *corev1.Pod) (number uint16, known bool) {
	if !p.mu.lockWithin(classSoon) {
		return 0, false
	}
	defer p.mu.Unlock()
	if p.written == nil { // not all policies may be known yet; the first write includes the pod
		return 0, false
	}
	now, err := p.pods.Pods(pod.Namespace).Get(pod.Name) // pod may be older than the engine's version
	if err != nil || now.UID != pod.UID || !p.engineHasAll(pod.Namespace) {
		return 0, false
	}
	p.enter(now) // the engine may lack the pod, or have an earlier one with its name
	p.enqueue(writeAll)
	return p.engine.Class(pod.Namespace, pod.Name, uidOf(pod))
}

func (p *policies) unclassed(pod string) { p.queue.Add(ofUnclassed + pod) }
