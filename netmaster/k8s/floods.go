package k8s

import (
	"maps"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// In forwarding mode bridge, what a pod floods in its network is judged where it is received, also by the rules for the sender's
// egress. So a policy about egress is in force when the switches of all nodes with endpoints of its subjects' networks have it,
// not only those of the nodes with subjects.

// floods knows where pods are, and who receives what they flood.
type floods struct {
	nodesIn  map[string]map[string]struct{} // nodes with endpoints of a network
	networks map[podName]string             // of pods that have an endpoint
}

// podName identifies a pod in its endpoint's record.
type podName struct{ namespace, name, uid string }

// readFloods reads the endpoints of bridged networks; there are none in forwarding mode routing. Nodes that Kubernetes does not
// know are left out: their reports do not count (readEnforced).
func (p *policies) readFloods(r ledger.Reader) (f floods, err error) {
	f = floods{nodesIn: map[string]map[string]struct{}{}, networks: map[podName]string{}}
	global, err := ledger.Read[contivmodel.Global](r, mastercfg.ModelKey("global", contivmodel.GlobalName))
	if err != nil || global.FwdMode != "bridge" {
		if fault.Is(err, fault.NotFound) {
			err = nil
		}
		return f, err
	}
	return f, ledger.ReadEach(r, mastercfg.EndpointPrefix, func(_ string, e mastercfg.CfgEndpointState) error {
		if e.PodUID != "" {
			f.networks[podName{e.PodNamespace, e.EPCommonName, e.PodUID}] = e.NetID
		}
		if _, err := p.nodes.Get(e.HomingHost); err != nil {
			return nil
		}
		if f.nodesIn[e.NetID] == nil {
			f.nodesIn[e.NetID] = map[string]struct{}{}
		}
		f.nodesIn[e.NetID][e.HomingHost] = struct{}{}
		return nil
	})
}

// heardBy returns the nodes on which a pod's floods are received.
func (f floods) heardBy(namespace, name, uid string) map[string]struct{} {
	return f.nodesIn[f.networks[podName{namespace, name, uid}]]
}

// heardByClass returns the nodes on which floods of the pods of each class are received.
func (p *policies) heardByClass(f floods) map[uint16]map[string]struct{} {
	by := map[uint16]map[string]struct{}{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for pod, network := range f.networks {
		class, _ := p.engine.Class(pod.namespace, pod.name, pod.uid)
		if class == 0 {
			continue
		}
		if by[class] == nil {
			by[class] = map[string]struct{}{}
		}
		maps.Copy(by[class], f.nodesIn[network])
	}
	return by
}

// hearing lists the nodes that judge the egress of a policy's subjects for what they flood.
func hearing(record mastercfg.K8sPolicy, by map[uint16]map[string]struct{}) (all []string) {
	nodes := map[string]struct{}{}
	for _, r := range record.Rules {
		if !r.Out {
			continue
		}
		for _, class := range r.Subjects {
			maps.Copy(nodes, by[class])
		}
	}
	return slices.Sorted(maps.Keys(nodes))
}
