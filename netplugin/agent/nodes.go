package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// nodes are the addresses by which the machines of the cluster know each other, and the ports of netmasters,
// from the registry. Endpoints must not reach them.
//
// After an entry is removed, its addresses stay for nodeGrace, and ports of netmasters until the agent ends: a
// process has ended, but its machine may still run. Its tunnel address stays for peerGrace only: packets from
// that address may carry the sources of clients outside, and the address may be assigned to another machine.
type nodes struct {
	addresses   map[string][]netip.Addr // by key of the entry; sorted
	reached     map[string]netip.Addr   // the control address of the agent or netmaster among them, by key of the entry
	restPorts   map[string]uint16       // the port of the agent's REST server, if it is not the default, by key of the entry
	vanished    map[string]time.Time    // keys of removed entries -> when their addresses expire; zero: not decided yet
	masterPorts map[uint16]struct{}
	peers       map[netip.Addr]time.Time // tunnel addresses of other machines -> when they expire; zero: in use
}

// peerGrace is how long the tunnel address of another machine stays known without a registration and without endpoints
// on its host. Repairing an agent takes less time, and addresses are seldom assigned to another machine sooner.
const peerGrace = time.Hour

// nodeGrace is how long endpoints and services are kept off the addresses of a machine without a registration.
// After that endpoints can reach what runs there.
const nodeGrace = 24 * time.Hour

func newNodes() nodes {
	return nodes{
		addresses: make(map[string][]netip.Addr), reached: make(map[string]netip.Addr), restPorts: make(map[string]uint16),
		vanished: make(map[string]time.Time), masterPorts: make(map[uint16]struct{}), peers: make(map[netip.Addr]time.Time),
	}
}

// nodePrefixes are the prefixes of registrations, each with the address of a machine.
const (
	agentPrefix  = objdb.ServicePrefix + mastercfg.AgentService + "/"
	masterPrefix = objdb.ServicePrefix + mastercfg.MasterService + "/"
)

// recalled is the prefix of keys for addresses that are not from the registry.
const recalled = "recalled/"

// setNode stores the addresses of a registry entry.
func (c *cache) setNode(key string, addresses ...netip.Addr) {
	slices.SortFunc(addresses, netip.Addr.Compare)
	addresses = slices.Compact(addresses)
	delete(c.nodes.vanished, key)
	if !slices.Equal(c.nodes.addresses[key], addresses) {
		c.nodes.addresses[key] = addresses
		c.hostDirty = true
	}
}

func (c *cache) putAgent(id string, value []byte, _ int64) error {
	r, err := c.putNode(agentPrefix+id, value)
	if err == nil && c.nodes.restPorts[agentPrefix+id] != r.REST {
		c.nodes.restPorts[agentPrefix+id] = r.REST
		c.hostDirty = true
	}
	return err
}

func (c *cache) putMaster(id string, value []byte, _ int64) error {
	r, err := c.putNode(masterPrefix+id, value)
	if err != nil {
		return err
	}
	for _, port := range append(r.Ports, r.Port) {
		if _, known := c.nodes.masterPorts[port]; !known {
			c.nodes.masterPorts[port] = struct{}{}
			c.hostDirty = true
		}
	}
	return nil
}

// registered is what the cache reads of a registry entry.
type registered struct {
	HostAddr  string
	Port      uint16
	Ports     []uint16
	REST      uint16
	Addresses []netip.Addr
}

// putNode stores the addresses of a registry entry.
func (c *cache) putNode(key string, value []byte) (r registered, err error) {
	if err := json.Unmarshal(value, &r); err != nil {
		return r, err
	}
	address, err := parseMachine(r.HostAddr)
	if err != nil {
		return r, err
	}
	if c.nodes.reached[key] != address {
		c.nodes.reached[key] = address
		c.hostDirty = true
	}
	addresses := append(r.Addresses[:min(len(r.Addresses), hostaddr.Most)], address)
	for i, a := range addresses {
		addresses[i] = a.Unmap()
	}
	// Addresses of one host only: a zone may be any text, and the host's rules contain these addresses as text.
	c.setNode(key, slices.DeleteFunc(addresses, func(a netip.Addr) bool { return !pipeline.OfOneHost(a) })...)
	return r, nil
}

// parseMachine parses the control address of a registry entry.
func parseMachine(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, fmt.Errorf("address %.60q: %w", text, err)
	}
	if a = a.Unmap(); !pipeline.OfOneHost(a) {
		return netip.Addr{}, fmt.Errorf("address %.60q is not one of a host in any network", text)
	}
	return a, nil
}

// setPeer stores the tunnel address of another machine.
func (c *cache) setPeer(vtep netip.Addr) {
	if _, known := c.nodes.peers[vtep]; !known {
		c.peerChanged(vtep)
	}
	c.nodes.peers[vtep] = time.Time{}
}

// peerChanged marks a tunnel address for the switch and the host.
func (c *cache) peerChanged(vtep netip.Addr) {
	c.mark(pipeline.KindPeer, pipeline.Peer{VTEP: vtep}.Key().ID)
	c.hostDirty = true
}

// unsetPeer removes a tunnel address at once: its registration was wrong.
func (c *cache) unsetPeer(vtep netip.Addr) {
	if _, known := c.nodes.peers[vtep]; known && !c.peers.addresses()[vtep] {
		delete(c.nodes.peers, vtep)
		c.peerChanged(vtep)
	}
}

// agePeers starts the grace period of tunnel addresses that are out of use, and removes those whose grace
// period is over. It returns when the next one expires; zero: none does.
func (c *cache) agePeers(now time.Time) (next time.Time) {
	used := c.peers.addresses()
	for vtep, until := range c.nodes.peers {
		switch {
		case used[vtep]:
			until = time.Time{}
		case until.IsZero():
			until = now.Add(peerGrace)
		case !until.After(now):
			delete(c.nodes.peers, vtep)
			c.peerChanged(vtep)
			continue
		}
		c.nodes.peers[vtep] = until
		next = sooner(next, until)
	}
	return next
}

// ageNodes does the same for addresses of machines. A machine whose tunnel address is in use counts as present.
func (c *cache) ageNodes(now time.Time) (next time.Time) {
	used := c.peers.addresses()
	for key, until := range c.nodes.vanished {
		if slices.ContainsFunc(c.nodes.addresses[key], func(a netip.Addr) bool { return used[a] }) {
			until = time.Time{}
		}
		if until.IsZero() {
			until = now.Add(nodeGrace)
			c.nodes.vanished[key] = until
		}
		if until.After(now) {
			next = sooner(next, until)
			continue
		}
		delete(c.nodes.vanished, key)
		delete(c.nodes.addresses, key)
		delete(c.nodes.reached, key)
		delete(c.nodes.restPorts, key)
		c.hostDirty = true
	}
	return next
}

func (n nodes) wantedPeer(id string) (pipeline.Object, error) {
	vtep, err := netip.ParseAddr(id)
	if err != nil {
		return nil, fault.New(fault.Internal, "peer %s: %w", id, err)
	}
	if _, known := n.peers[vtep]; !known {
		return nil, fault.New(fault.NotFound, "peer %s is not known", id)
	}
	return pipeline.Peer{VTEP: vtep}, nil
}

func (c *cache) removeAgent(id string) { c.vanish(agentPrefix + id) }

func (c *cache) removeMaster(id string) { c.vanish(masterPrefix + id) }

// vanish starts the grace period of a removed entry's addresses.
func (c *cache) vanish(key string) {
	if _, known := c.nodes.addresses[key]; known {
		c.nodes.vanished[key] = time.Time{}
	}
}

func (n nodes) list() []netip.Addr {
	all := slices.Concat(slices.Collect(maps.Values(n.addresses))...)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// reachedAt returns the control addresses of agents and netmasters.
func (n nodes) reachedAt() []netip.Addr {
	return slices.Compact(slices.SortedFunc(maps.Values(n.reached), netip.Addr.Compare))
}

// ends returns the tunnel addresses of other nodes.
func (n nodes) ends() []netip.Addr { return slices.SortedFunc(maps.Keys(n.peers), netip.Addr.Compare) }

// agentPorts returns where the REST servers of agents are that do not have the default port. A port is closed at the
// addresses of its own machine only: who has a node's key may not close ports of others.
func (n nodes) agentPorts() (all []netip.AddrPort) {
	for key, port := range n.restPorts {
		for _, a := range n.addresses[key] {
			if port != 0 {
				all = append(all, netip.AddrPortFrom(a, port))
			}
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

func (n nodes) ports() []uint16 { return slices.Sorted(maps.Keys(n.masterPorts)) }
