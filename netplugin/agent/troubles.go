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

// Other packages of the node report ports that another process listens on, and pods that the node's processes
// do not reach. The agent knows the objects that own these ports and addresses. It reports the objects to
// netmaster, which writes Kubernetes events.

// TakenPort is a port of this node that forwards to endpoints while a process of the node listens on it as
// well, or a port of services that forwards to another endpoint.
type TakenPort struct {
	Protocol string // tcp or udp
	Port     uint16
	Endpoint string         // owner of this host port; empty: a port of services
	Address  netip.Addr     // load balancer address at which services have the port; invalid: not such a port
	By       netip.AddrPort // where the process listens
	Leads    string         // endpoint with the same host port, which receives the packets for the services; empty: none
}

// UnreachedPod is a pod of this node that the node's processes do not reach at an address.
type UnreachedPod struct {
	Endpoint string // its id
	At       netip.Addr
	Why      string
	Unnamed  bool // no configuration asks for it to be reached
}

// troubles are conflicts on this node, as reported by other packages, and the objects that they affect.
type troubles struct {
	taken     []TakenPort
	closed    map[uint16]string // why the listener of a health check port has failed
	unreached []UnreachedPod
	refused   map[string]string      // why pods do not get their host ports, by UID
	objects   []mastercfg.K8sTrouble // sorted; services of Contiv have no namespace
}

// maxTroubles is the maximum number of objects that a node reports: the report is one record of the store.
const maxTroubles = 50

// TellTaken sets the ports that processes of the node also listen on, to be reported to netmaster.
func (a *Agent) TellTaken(all []TakenPort) {
	a.changeTroubles(func(p *troubles) { p.taken = all })
}

// TellClosed sets why health check ports are not answered, to be reported to netmaster.
func (a *Agent) TellClosed(why map[uint16]string) {
	a.changeTroubles(func(p *troubles) { p.closed = why })
}

// TellUnreached sets the pods that kubelet does not reach though
// it probes them over the network, to be reported to netmaster.
func (a *Agent) TellUnreached(all []UnreachedPod) {
	a.changeTroubles(func(p *troubles) { p.unreached = all })
}

// TellPorts sets why a pod of this node does not get its host ports, and so does not start, to be reported to
// netmaster; empty: it has them.
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

// reportedTroubles returns the troubles to report to netmaster, which writes them as events of Kubernetes objects.
func (a *Agent) reportedTroubles() []mastercfg.K8sTrouble {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := slices.DeleteFunc(slices.Clone(a.troubles.objects), func(p mastercfg.K8sTrouble) bool {
		return p.Namespace == "" || p.Reason == mastercfg.HostPortConflict && a.cache.pods[p.UID].UID == "" // deleted since
	})
	return known[:min(len(known), maxTroubles)]
}

// affectedObjects returns the objects that this node does not serve as it should.
func (c *cache) affectedObjects(found troubles) (all []mastercfg.K8sTrouble) {
	for _, p := range found.taken {
		switch {
		case p.Endpoint != "":
			all = append(all, c.podWithPort(p)...)
		case p.Address.IsValid():
			all = append(all, c.servicesBalancedAt(p)...)
		default:
			all = append(all, c.servicesWithNodePort(p)...)
		}
	}
	for id := range c.kube.healthChecked {
		s := c.kube.services[id].record
		if why := found.closed[s.HealthPort]; why != "" {
			all = append(all, mastercfg.K8sTrouble{
				Kind: mastercfg.K8sOfService, Namespace: s.Namespace, Name: s.Name, Reason: mastercfg.HealthPortClosed,
				Message: why,
			})
		}
	}
	for uid, why := range found.refused {
		if pod := c.pods[uid]; pod.UID != "" {
			all = append(all, mastercfg.K8sTrouble{
				Kind: mastercfg.K8sOfPod, Namespace: pod.Namespace, Name: pod.Name, UID: uid,
				Reason: mastercfg.HostPortConflict, Message: why,
			})
		}
	}
	all = append(all, c.unprobedPods(found.unreached)...)
	slices.SortFunc(all, func(a, b mastercfg.K8sTrouble) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(all)
}

// heard describes a port that a process listens on: what of which object it takes.
func (p TakenPort) heard(object, port string) string {
	meant := "the node"
	if p.Address.IsValid() {
		meant = p.Address.String()
	}
	return fmt.Sprintf("a process listens at %s (%s), and gets nothing there that is for %s, as %s gets it: ss -ln --%s 'sport = :%d' -p says which one; "+
		"have it listen elsewhere, or take another %s", p.By, p.Protocol, meant, object, p.Protocol, p.Port, port)
}

// podWithPort returns the pod whose host port is taken; nothing if it was deleted since.
func (c *cache) podWithPort(p TakenPort) []mastercfg.K8sTrouble {
	e := c.endpoints[p.Endpoint].record
	if e == nil || e.PodNamespace == "" {
		return nil
	}
	return []mastercfg.K8sTrouble{{
		Kind: mastercfg.K8sOfPod, Namespace: e.PodNamespace, Name: e.EPCommonName, UID: e.PodUID,
		Reason: mastercfg.HostPortInUse, Message: p.heard("the pod", "hostPort"),
	}}
}

// servicesBalancedAt returns the services with a port that is taken, at an address of load balancers.
func (c *cache) servicesBalancedAt(p TakenPort) (all []mastercfg.K8sTrouble) {
	for id := range c.standIns.balanced[p.Address.String()] {
		if s := c.kube.services[strings.TrimPrefix(id, kubeID)]; s.balances(p) {
			all = append(all, mastercfg.K8sTrouble{
				Kind: mastercfg.K8sOfService, Namespace: s.record.Namespace, Name: s.record.Name,
				Reason: mastercfg.BalancerPortInUse, Message: p.heard("the service", "port"),
			})
		}
	}
	return all
}

// servicesWithNodePort returns the services whose node port is taken, by a process or as the host port of a pod.
func (c *cache) servicesWithNodePort(p TakenPort) (all []mastercfg.K8sTrouble) {
	why := p.heard("the service", "nodePort")
	if p.Leads != "" {
		e := c.endpoints[p.Leads].record
		if e == nil { // deleted since
			return nil
		}
		why = fmt.Sprintf("pod %s/%s has port %d (%s) of the node as its hostPort, and gets what comes there for the service; take another hostPort, or another nodePort",
			e.PodNamespace, e.EPCommonName, p.Port, p.Protocol)
	}
	for owner := range c.services.nodePorts[nodePortKey(inet.TransportNumber(p.Protocol), p.Port)] {
		_, id, _ := strings.Cut(owner, " ")
		of := mastercfg.K8sTrouble{Kind: mastercfg.K8sOfService, Name: id, Reason: mastercfg.NodePortInUse, Message: why}
		if kube, is := strings.CutPrefix(id, kubeID); is {
			of.Namespace, of.Name = c.kube.services[kube].record.Namespace, c.kube.services[kube].record.Name
		}
		all = append(all, of)
	}
	return all
}

// balances reports whether a service has a port at an address of load balancers.
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
		if e == nil { // deleted since
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
