package agent

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/inet"
)

// Who serves a port of this node sees that something else has it, and who leads the node's processes to pods which ones they do not
// reach; the agent knows whose that is. Both together are told to netmaster, which makes events of it.

// TakenPort is a port of this node that leads to endpoints, and at which a process of the node listens as well, or which is of services
// and leads to another endpoint.
type TakenPort struct {
	Protocol string // tcp or udp
	Port     uint16
	Endpoint string         // whose host port it is; empty: it is of services
	Address  netip.Addr     // of load balancers, at which services have the port; invalid: it is no such port
	By       netip.AddrPort // where the process listens
	Leads    string         // the endpoint whose host port it is, and that gets what comes for the services; empty: none
}

// UnreachedPod is a pod of this node that its processes do not reach at an address.
type UnreachedPod struct {
	Endpoint string // its id
	At       netip.Addr
	Why      string
	Unnamed  bool // nobody has asked that they do
}

// troubles are what this node does not serve as it should, as those say who serve it, and whom it concerns.
type troubles struct {
	taken     []TakenPort
	closed    map[uint16]string // why nobody answers at a port at which load balancers ask
	unreached []UnreachedPod
	refused   map[string]string      // why pods do not get their host ports, by UID
	objects   []mastercfg.K8sTrouble // sorted; services that are not of Kubernetes have no namespace
}

// maxTroubles is of how many objects a node tells at most: what it tells is one record of the store.
const maxTroubles = 50

// TellTaken tells netmaster which ports processes of the node have, too; it replaces what was said before.
func (a *Agent) TellTaken(all []TakenPort) {
	a.changeTroubles(func(p *troubles) { p.taken = all })
}

// TellClosed tells netmaster why nobody answers at ports at which load balancers ask; it replaces what was said before.
func (a *Agent) TellClosed(why map[uint16]string) {
	a.changeTroubles(func(p *troubles) { p.closed = why })
}

// TellUnreached tells netmaster which pods kubelet does not reach that probes them over the network; it replaces what was said before.
func (a *Agent) TellUnreached(all []UnreachedPod) {
	a.changeTroubles(func(p *troubles) { p.unreached = all })
}

// TellPorts tells netmaster why a pod of this node does not get its host ports, and so does not start; empty: it has them.
func (a *Agent) TellPorts(uid, why string) {
	a.changeTroubles(func(p *troubles) {
		if p.refused == nil {
			p.refused = map[string]string{}
		}
		p.refused[uid] = why
		maps.DeleteFunc(p.refused, func(uid, why string) bool { return why == "" || a.cache.pods[uid].UID == "" })
	})
}

// changeTroubles changes the troubles and logs each new one once, in the words of the report.
func (a *Agent) changeTroubles(change func(*troubles)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.troubles.objects
	change(&a.troubles)
	a.troubles.objects = a.cache.affectedObjects(a.troubles)
	for _, p := range a.troubles.objects {
		if !slices.Contains(before, p) {
			a.log.Warnf("%s: %s %s: %s", p.Reason, p.Kind, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/"), p.Message)
		}
	}
	if !slices.Equal(before, a.troubles.objects) {
		a.tell.Send()
	}
}

// reportedTroubles returns those that are reported to netmaster, which writes events of Kubernetes objects.
func (a *Agent) reportedTroubles() []mastercfg.K8sTrouble {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := slices.DeleteFunc(slices.Clone(a.troubles.objects), func(p mastercfg.K8sTrouble) bool {
		return p.Namespace == "" || p.Reason == mastercfg.HostPortConflict && a.cache.pods[p.UID].UID == "" // it has gone since
	})
	return known[:min(len(known), maxTroubles)]
}

// affectedObjects returns the objects that this node does not serve as it should.
func (c *cache) affectedObjects(found troubles) (all []mastercfg.K8sTrouble) {
	for _, p := range found.taken {
		meant := "the node"
		if p.Address.IsValid() {
			meant = p.Address.String()
		}
		taken := fmt.Sprintf("a process listens at %s (%s), and gets nothing there that is for %s, as %%s gets it: ss -ln --%s 'sport = :%d' -p says which one; "+
			"have it listen elsewhere, or take another %%s", p.By, p.Protocol, meant, p.Protocol, p.Port)
		if p.Endpoint != "" {
			if e := c.endpoints[p.Endpoint].record; e != nil && e.PodNamespace != "" { // else it has gone since
				all = append(all, mastercfg.K8sTrouble{Kind: mastercfg.K8sOfPod, Namespace: e.PodNamespace, Name: e.EPCommonName, UID: e.PodUID,
					Reason: mastercfg.HostPortInUse, Message: fmt.Sprintf(taken, "the pod", "hostPort")})
			}
			continue
		}
		if p.Address.IsValid() {
			for id := range c.stand.balanced[p.Address.String()] {
				if s := c.kube.services[strings.TrimPrefix(id, kubeID)]; s.balances(p) {
					all = append(all, mastercfg.K8sTrouble{Kind: mastercfg.K8sOfService, Namespace: s.record.Namespace, Name: s.record.Name,
						Reason: mastercfg.BalancerPortInUse, Message: fmt.Sprintf(taken, "the service", "port")})
				}
			}
			continue
		}
		why := fmt.Sprintf(taken, "the service", "nodePort")
		if p.Leads != "" {
			e := c.endpoints[p.Leads].record
			if e == nil { // it has gone since
				continue
			}
			why = fmt.Sprintf("pod %s/%s has port %d (%s) of the node as its hostPort, and gets what comes there for the service; take another hostPort, or another nodePort",
				e.PodNamespace, e.EPCommonName, p.Port, p.Protocol)
		}
		for owner := range c.nodePorts[nodePortKey(inet.TransportNumber(p.Protocol), p.Port)] {
			_, id, _ := strings.Cut(owner, " ")
			of := mastercfg.K8sTrouble{Kind: mastercfg.K8sOfService, Name: id, Reason: mastercfg.NodePortInUse, Message: why}
			if kube, is := strings.CutPrefix(id, kubeID); is {
				of.Namespace, of.Name = c.kube.services[kube].record.Namespace, c.kube.services[kube].record.Name
			}
			all = append(all, of)
		}
	}
	for id := range c.kube.asked {
		s := c.kube.services[id].record
		if why := found.closed[s.HealthPort]; why != "" {
			all = append(all, mastercfg.K8sTrouble{Kind: mastercfg.K8sOfService, Namespace: s.Namespace, Name: s.Name, Reason: mastercfg.HealthPortClosed, Message: why})
		}
	}
	for uid, why := range found.refused {
		if pod := c.pods[uid]; pod.UID != "" {
			all = append(all, mastercfg.K8sTrouble{Kind: mastercfg.K8sOfPod, Namespace: pod.Namespace, Name: pod.Name, UID: uid, Reason: mastercfg.HostPortConflict, Message: why})
		}
	}
	all = append(all, c.unprobedPods(found.unreached)...)
	slices.SortFunc(all, func(a, b mastercfg.K8sTrouble) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(all)
}

// balances tells whether a service has a port at an address of load balancers.
func (s kubeService) balances(taken TakenPort) bool {
	return slices.ContainsFunc(s.ports, func(p kubePort) bool {
		return p.balancer && p.Address == taken.Address && p.Port == taken.Port && p.Protocol == inet.TransportNumber(taken.Protocol)
	})
}

// unprobedPods returns the pods whose probes fail because the host cannot reach them. Whether a pod without a record, such as in
// mode cni, has probes is unknown.
func (c *cache) unprobedPods(unreached []UnreachedPod) (all []mastercfg.K8sTrouble) {
	for _, u := range unreached {
		e := c.endpoints[u.Endpoint].record
		if e == nil { // it has gone since
			continue
		}
		if pod, recorded := c.pods[e.PodUID]; recorded && !pod.Probed || !recorded && u.Unnamed {
			continue
		}
		all = append(all, mastercfg.K8sTrouble{Kind: mastercfg.K8sOfPod, Namespace: e.PodNamespace, Name: e.EPCommonName, UID: e.PodUID, Reason: mastercfg.ProbesNotReached,
			Message: fmt.Sprintf("kubelet, as all processes of the node, does not reach the pod at %s: %s. A probe of kind exec needs no address", u.At, u.Why)})
	}
	return all
}
