package agent

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/inet"
)

// Who serves a port of this node sees that something else has it, and the agent knows whose it is: both together are told to
// netmaster, which makes events of it.

// TakenPort is a port of this node that leads to endpoints, and at which a process of the node listens as well.
type TakenPort struct {
	Protocol string // tcp or udp
	Port     uint16
	Endpoint string         // whose host port it is; empty: it is a node port of services
	By       netip.AddrPort // where the process listens
}

// portTroubles are what is wrong with ports of this node, as those say who serve them, and whom it concerns.
type portTroubles struct {
	taken   []TakenPort
	closed  map[uint16]string   // why nobody answers at a port at which load balancers ask
	objects []mastercfg.K8sPort // sorted; services that are not of Kubernetes have no namespace
}

// maxPorts is of how many objects a node tells at most: what it tells is one record of the store.
const maxPorts = 50

// TellTaken tells netmaster which ports processes of the node have, too; it replaces what was said before.
func (a *Agent) TellTaken(all []TakenPort) {
	a.tellPorts(func(p *portTroubles) { p.taken = all })
}

// TellClosed tells netmaster why nobody answers at ports at which load balancers ask; it replaces what was said before.
func (a *Agent) TellClosed(why map[uint16]string) {
	a.tellPorts(func(p *portTroubles) { p.closed = why })
}

// tellPorts logs each trouble once, in the words in which it is told.
func (a *Agent) tellPorts(change func(*portTroubles)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.troubles.objects
	change(&a.troubles)
	a.troubles.objects = a.cache.concerned(a.troubles)
	for _, p := range a.troubles.objects {
		if !slices.Contains(before, p) {
			a.log.Warnf("%s: %s %s: %s", p.Reason, p.Kind, strings.TrimPrefix(p.Namespace+"/"+p.Name, "/"), p.Message)
		}
	}
	if !slices.Equal(before, a.troubles.objects) {
		a.tell.Send()
	}
}

// toldPorts are those of which netmaster is told: it makes events of objects of Kubernetes.
func (a *Agent) toldPorts() []mastercfg.K8sPort {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := slices.DeleteFunc(slices.Clone(a.troubles.objects), func(p mastercfg.K8sPort) bool { return p.Namespace == "" })
	return known[:min(len(known), maxPorts)]
}

// concerned are the objects that do not get ports of this node as they should.
func (c *cache) concerned(found portTroubles) (all []mastercfg.K8sPort) {
	for _, p := range found.taken {
		taken := fmt.Sprintf("a process listens at %s (%s), and gets nothing there that is for the node, as %%s gets it: ss -ln --%s 'sport = :%d' -p says which one; "+
			"have it listen elsewhere, or take another %%s", p.By, p.Protocol, p.Protocol, p.Port)
		if p.Endpoint != "" {
			if e := c.endpoints[p.Endpoint].record; e != nil && e.PodNamespace != "" { // else it has gone since
				all = append(all, mastercfg.K8sPort{Kind: mastercfg.K8sOfPod, Namespace: e.PodNamespace, Name: e.EPCommonName, UID: e.PodUID,
					Reason: mastercfg.HostPortInUse, Message: fmt.Sprintf(taken, "the pod", "hostPort")})
			}
			continue
		}
		for owner := range c.nodePorts[nodePortKey(inet.TransportNumber(p.Protocol), p.Port)] {
			_, id, _ := strings.Cut(owner, " ")
			of := mastercfg.K8sPort{Kind: mastercfg.K8sOfService, Name: id, Reason: mastercfg.NodePortInUse, Message: fmt.Sprintf(taken, "the service", "nodePort")}
			if kube, is := strings.CutPrefix(id, kubeID); is {
				of.Namespace, of.Name = c.kube.services[kube].record.Namespace, c.kube.services[kube].record.Name
			}
			all = append(all, of)
		}
	}
	for id := range c.kube.asked {
		s := c.kube.services[id].record
		if why := found.closed[s.HealthPort]; why != "" {
			all = append(all, mastercfg.K8sPort{Kind: mastercfg.K8sOfService, Namespace: s.Namespace, Name: s.Name, Reason: mastercfg.HealthPortClosed, Message: why})
		}
	}
	slices.SortFunc(all, func(a, b mastercfg.K8sPort) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(all)
}
