package k8s

import (
	"context"
	"maps"
	"strings"

	"github.com/contiv/netplugin/netmaster/classes"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// write writes the results of the engine to the state. Rules come before the classes that they name, and
// classes before their pods: a class without a record is isolated.
func (p *policies) write(ctx context.Context) error {
	p.mu.Lock()
	changes, told := p.engine.Take(), maps.Clone(p.clusterSpecs)
	if !changes.Any() {
		p.written = told
	}
	p.mu.Unlock()
	if !changes.Any() {
		return nil
	}
	_, err := p.ledger.Update(ctx, func(tx *ledger.Tx) error { return p.writeChanges(tx, changes) })
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.engine.Failed(changes)
		return err
	}
	p.engine.Written(changes)
	p.written = told
	p.reportChanges(changes)
	return nil
}

func (p *policies) writeChanges(tx *ledger.Tx, changes classes.Changes) error {
	epoch, err := ledger.Read[mastercfg.K8sEpoch](tx, mastercfg.K8sEpochKey)
	rejudge := changes.Moved || err != nil // there always is one; the number of a damaged one is unknown
	epoch.Number = master.NextEpoch(epoch.Number, p.epochFloor)
	lasting, other := lastingClasses(tx, changes.Classes)
	rejudge = rejudge || other
	// Pods that are no longer selected come first: a large plan is
	// stored in parts, and pods without a class record are isolated.
	selected, unselected := map[string]classes.PodClass{}, map[string]classes.PodClass{}
	for name, class := range changes.Pods {
		if class.Number != 0 {
			selected[name] = class
		} else {
			unselected[name] = class
		}
	}
	if _, err := p.writePods(tx, unselected); err != nil {
		return err
	}
	for id, policy := range changes.Policies {
		other, err := writePolicy(tx, mastercfg.K8sPolicyPrefix+id, policy, epoch.Number, lasting)
		if err != nil {
			return err
		}
		rejudge = rejudge || other
	}
	for number, class := range changes.Classes {
		if class != nil {
			if err := ledger.Write(tx, mastercfg.K8sClassKey(number), class); err != nil {
				return err
			}
		}
	}
	first, err := p.writePods(tx, selected)
	if err != nil {
		return err
	}
	for number, class := range changes.Classes { // classes without pods
		if class == nil {
			tx.Delete(mastercfg.K8sClassKey(number))
		}
	}
	if !rejudge && !first {
		return nil // connections need not be evaluated again
	}
	return ledger.Write(tx, mastercfg.K8sEpochKey, epoch)
}

// writePods is writePod for several pods; first is true if it is for one of them.
func (p *policies) writePods(tx *ledger.Tx, pods map[string]classes.PodClass) (first bool, err error) {
	for name, class := range pods {
		is, err := p.writePod(tx, name, class)
		if err != nil {
			return false, err
		}
		first = first || is
	}
	return first, nil
}

// put writes a record, or deletes it if nil.
func put[T any](tx *ledger.Tx, key string, record *T) error {
	if record == nil {
		tx.Delete(key)
		return nil
	}
	return ledger.Write(tx, key, record)
}

// lastingClasses returns the numbers of the classes that are written and stay. other reports whether one of them
// changes, and with it the evaluation of connections.
func lastingClasses(r ledger.Reader, now map[uint16]*mastercfg.K8sClass) (numbers map[uint16]struct{}, other bool) {
	numbers = map[uint16]struct{}{}
	for number, class := range now {
		key := mastercfg.K8sClassKey(number)
		if class == nil || r.Revision(key) == 0 {
			continue
		}
		before, err := ledger.Read[mastercfg.K8sClass](r, key)
		numbers[number], other = struct{}{}, other || err != nil || before != *class
	}
	return numbers, other
}

// writePolicy writes the rules of a policy. It reports whether their effect changes, which it then does in the
// epoch next: the policy has changed, or the pods of lasting classes in its rules.
func writePolicy(tx *ledger.Tx, key string, now *mastercfg.K8sPolicy, next uint32, lasting map[uint16]struct{}) (other bool, err error) {
	before, err := ledger.Read[mastercfg.K8sPolicy](tx, key)
	if now == nil {
		return tx.Revision(key) != 0, put(tx, key, now)
	}
	record := *now                                                          // a copy: the plan may run again
	if record.Epoch = before.Epoch; err != nil || before.Spec != now.Spec { // a damaged record counts as different
		other, record.Epoch = true, next
	}
	return other || !classes.SameFor(lasting, before.Rules, now.Rules), put(tx, key, &record)
}

// writePod writes the class of a pod to its record, if it has one, but never to that of a later pod with its name.
// first reports whether the class of a selected pod was unknown so far: other nodes may have evaluated its
// connections as those of an unselected pod.
func (p *policies) writePod(tx *ledger.Tx, name string, class classes.PodClass) (first bool, err error) {
	namespace, short, _ := strings.Cut(name, "/")
	pod, err := p.pods.Pods(namespace).Get(short)
	if err != nil || uidOf(pod) != class.UID {
		return false, nil // it was deleted meanwhile
	}
	key := mastercfg.K8sPodKey(pod.Spec.NodeName, class.UID)
	record, err := ledger.Read[mastercfg.K8sPod](tx, key)
	if err != nil || record.Pod() != name {
		return false, nil // it gets its class when it is placed
	}
	first = class.Number != 0 && !record.Classed
	record.Class, record.Classed = class.Number, true
	return first, ledger.Write(tx, key, record)
}
