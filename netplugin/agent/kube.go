package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/kubeservice"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// kube is what the leader has recorded of Kubernetes: services and their backends, nodes, and the service
// CIDRs. Backends may arrive before their service, or outlive it.
type kube struct {
	services      map[string]kubeService // by id: tenant/namespace/name
	backends      map[string]backends    // by id of the service
	servicesOf    index                  // tenant -> services
	nodes         map[string]mastercfg.K8sNode
	ranges        []netip.Prefix
	atNodes       index               // protocol and port -> services of the pipeline with that port at addresses of nodes
	healthPortsAt index               // protocol and health check port -> services of the pipeline
	healthChecked map[string]struct{} // services with a health check port on this node: those of the tenant that hosts reach
}

// backends are those of one service, by port and address.
type backends map[string]map[netip.AddrPort]kubeservice.Backend

// kubeService is a decoded service.
type kubeService struct {
	tenant string
	record mastercfg.K8sService
	ports  []kubePort
}

// kubePort is a port at one address of a service, for some clients.
type kubePort struct {
	pipeline.ServicePort        // without backends; a node port has the unspecified address of its IP family as yet
	name                 string // of the port
	local                bool   // only backends of this node serve it
	limited              bool   // loadBalancerSourceRanges apply
	ofNode               bool   // the address is one that a node has in Kubernetes
	balancer             bool   // at the stand-in of a load balancer's address that the host has on an interface
	cluster              bool   // at a cluster address
}

func newKube() kube {
	return kube{
		services: make(map[string]kubeService), backends: make(map[string]backends), servicesOf: make(index),
		nodes: make(map[string]mastercfg.K8sNode), atNodes: make(index), healthPortsAt: make(index),
		healthChecked: make(map[string]struct{}),
	}
}

// kubeID is the prefix of the ids of the pipeline's objects for services of Kubernetes; other ids have no slash.
const kubeID = "k8s/"

func (c *cache) putKubeService(id string, value []byte, _ int64) error {
	var s kubeService
	if err := json.Unmarshal(value, &s.record); err != nil {
		return err
	}
	tenant, _, ok := strings.Cut(id, "/")
	if !ok {
		return fmt.Errorf("key is not of tenant, namespace and name")
	}
	s.tenant = tenant
	c.removeKubeService(id)
	s.ports = c.numbered(id, kubePorts(tenant, s.record))
	for _, p := range s.ports {
		c.services.groups[p.Group] = struct{}{}
	}
	c.kube.services[id] = s
	c.kube.servicesOf.add(s.tenant, id)
	if s.record.HealthPort != 0 && !s.record.Guest { // the records of other tenants have the same port
		c.kube.healthChecked[id] = struct{}{}
		c.indexHealthPort(id, s.record.HealthPort, index.add)
	}
	for _, p := range s.ports {
		c.placePort(s.tenant, p.ServicePort, kubeID+id, index.add)
	}
	c.placeBalanced(id, s.ports, index.add)
	c.placeAtNodes(id, s.ports, index.add)
	c.countEnteredKube(s, 1)
	return nil
}

func (c *cache) removeKubeService(id string) {
	if old, existed := c.kube.services[id]; existed {
		for _, p := range old.ports {
			delete(c.services.groups, p.Group)
			c.placePort(old.tenant, p.ServicePort, kubeID+id, index.remove)
		}
		c.placeBalanced(id, old.ports, index.remove)
		c.placeAtNodes(id, old.ports, index.remove)
		delete(c.kube.services, id)
		delete(c.kube.healthChecked, id)
		c.indexHealthPort(id, old.record.HealthPort, index.remove)
		c.kube.servicesOf.remove(old.tenant, id)
		c.countEnteredKube(old, -1)
	}
	c.mark(pipeline.KindService, kubeID+id)
}

// countEnteredKube updates the number of services that hosts reach.
func (c *cache) countEnteredKube(s kubeService, step int) {
	if slices.ContainsFunc(s.ports, func(p kubePort) bool { return p.From&^pipeline.FromPods != 0 }) {
		c.countEntered(s.tenant, step)
		c.hostChanges()
	}
}

// numbered assigns group numbers to the ports that no other service has.
func (c *cache) numbered(id string, ports []kubePort) []kubePort {
	o := pipeline.Service{ID: kubeID + id}
	for _, p := range ports {
		o.Ports = append(o.Ports, p.ServicePort)
	}
	o = o.Numbered(func(group uint32) bool { _, taken := c.services.groups[group]; return taken })
	for i := range ports {
		ports[i].Group = o.Ports[i].Group
	}
	return ports
}

// backendID splits the key of a backend into its service, the name of the port, and the address.
func backendID(key string) (service, port string, at netip.AddrPort, err error) {
	parts := strings.Split(key, "/")
	if len(parts) != 5 {
		return "", "", at, fmt.Errorf("key is not of tenant, namespace, service, port and address")
	}
	at, err = netip.ParseAddrPort(parts[4])
	return strings.Join(parts[:3], "/"), mastercfg.K8sPortName(parts[3]), at, err
}

func (c *cache) putBackend(key string, value []byte, _ int64) error {
	service, port, at, err := backendID(key)
	if err != nil {
		return err
	}
	var r mastercfg.K8sBackend
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	if c.kube.backends[service] == nil {
		c.kube.backends[service] = make(backends)
	}
	if c.kube.backends[service][port] == nil {
		c.kube.backends[service][port] = make(map[netip.AddrPort]kubeservice.Backend)
	}
	defer c.noteOwnBackend(service, port, at, c.servesAt(service, port, at))
	c.kube.backends[service][port][at] = kubeservice.Backend{Address: at, Node: r.Node, Ready: r.Ready, Serving: r.Serving, Terminating: r.Terminating,
		ForNodes: r.ForNodes, ForZones: r.ForZones}
	c.mark(pipeline.KindService, kubeID+service)
	return nil
}

func (c *cache) removeBackend(key string) {
	service, port, at, err := backendID(key)
	if err != nil {
		return
	}
	defer c.noteOwnBackend(service, port, at, c.servesAt(service, port, at))
	delete(c.kube.backends[service][port], at)
	if len(c.kube.backends[service][port]) == 0 {
		delete(c.kube.backends[service], port)
	}
	if len(c.kube.backends[service]) == 0 {
		delete(c.kube.backends, service)
	}
	c.mark(pipeline.KindService, kubeID+service)
}

func (c *cache) putKubeNode(name string, value []byte, _ int64) error {
	var r mastercfg.K8sNode
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	before := c.kube.nodes[name]
	c.kube.nodes[name] = r
	c.kubeNodeChanged(name, before, r)
	return nil
}

func (c *cache) removeKubeNode(name string) {
	before := c.kube.nodes[name]
	delete(c.kube.nodes, name)
	c.kubeNodeChanged(name, before, mastercfg.K8sNode{})
}

// kubeNodeChanged marks the rules of which the node may be a peer and, for this node, the services, whose
// choice of backends depends on its zone and addresses.
func (c *cache) kubeNodeChanged(name string, before, now mastercfg.K8sNode) {
	if !slices.Equal(before.Addresses, now.Addresses) {
		c.nodePeersChange()
	}
	if name != c.host || before.Zone == now.Zone && slices.Equal(before.Addresses, now.Addresses) {
		return
	}
	c.hostChanges()
	for id := range c.kube.services {
		c.mark(pipeline.KindService, kubeID+id)
	}
}

// primary returns the first address of each IP family that a node has in Kubernetes.
func (k kube) primary(host string) (some []netip.Addr) {
	for _, a := range k.nodes[host].Addresses {
		if !slices.ContainsFunc(some, func(other netip.Addr) bool { return other.Is4() == a.Is4() }) {
			some = append(some, a)
		}
	}
	return some
}

func (c *cache) putKubeRanges(_ string, value []byte, _ int64) error {
	var r mastercfg.K8sServiceRanges
	if err := json.Unmarshal(value, &r); err != nil {
		return err
	}
	c.setKubeRanges(r.Ranges)
	return nil
}

func (c *cache) removeKubeRanges(string) { c.setKubeRanges(nil) }

func (c *cache) setKubeRanges(ranges []netip.Prefix) {
	if !slices.Equal(ranges, c.kube.ranges) {
		c.kube.ranges = ranges
		c.hostChanges()
	}
}

// markKubeServices marks the Kubernetes services of a tenant.
func (c *cache) markKubeServices(tenant string) {
	for id := range c.kube.servicesOf[tenant] {
		c.mark(pipeline.KindService, kubeID+id)
	}
}
