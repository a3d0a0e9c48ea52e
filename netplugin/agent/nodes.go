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

// nodes are the addresses by which the machines of the cluster know each other, and the
// ports of netmasters, from the registry. Endpoints are kept away from them.
//
// The addresses of an entry that vanished stay for nodeGrace, and ports of netmasters until the agent ends: a process is gone
// then, but perhaps not its machine. Its end of the tunnels stays for peerGrace, as it lets a
// machine send in the name of clients outside, and the next one that has the address may be another.
type nodes struct {
	addresses   map[string][]netip.Addr // by key of the entry; sorted
	reached     map[string]netip.Addr   // the one of them at which its agent or netmaster is reached, by key of the entry
	vanished    map[string]time.Time    // keys of entries that are gone -> when their addresses are forgotten; zero: not yet said
	masterPorts map[uint16]struct{}
	peers       map[netip.Addr]time.Time // other machines' ends of tunnels -> when that is forgotten; zero: it is in use
}

// peerGrace is how long another machine's end of the tunnels is known when nobody registers it
// and its host has no endpoints. An agent's repair takes less time, and whoever gives addresses
// to machines seldom gives one to another machine sooner.
const peerGrace = time.Hour

// nodeGrace is how long the addresses of a machine are kept from endpoints, and from services, when nobody registers them
// any more. What runs there without our daemons is open to endpoints afterwards.
const nodeGrace = 24 * time.Hour

func newNodes() nodes {
	return nodes{addresses: make(map[string][]netip.Addr), reached: make(map[string]netip.Addr), vanished: make(map[string]time.Time), masterPorts: make(map[uint16]struct{}), peers: make(map[netip.Addr]time.Time)}
}

// nodePrefixes are where machines register: all of them have an address of a node.
const (
	agentPrefix  = objdb.ServicePrefix + mastercfg.AgentService + "/"
	masterPrefix = objdb.ServicePrefix + mastercfg.MasterService + "/"
)

// recalled begins the keys of what was not read from the registry.
const recalled = "recalled/"

// setNode takes over the addresses of a machine as an entry has them.
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
	_, err := c.putNode(agentPrefix+id, value) // who has a node's key may not close ports for the endpoints of all others
	return err
}

func (c *cache) putMaster(id string, value []byte, _ int64) error {
	ports, err := c.putNode(masterPrefix+id, value)
	for _, port := range ports {
		if _, known := c.nodes.masterPorts[port]; !known {
			c.nodes.masterPorts[port] = struct{}{}
			c.hostDirty = true
		}
	}
	return err
}

// putNode takes over the addresses of a registry entry, and returns its ports.
func (c *cache) putNode(key string, value []byte) (ports []uint16, err error) {
	var r struct {
		HostAddr  string
		Port      uint16
		Ports     []uint16
		Addresses []netip.Addr
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return nil, err
	}
	address, err := parseMachine(r.HostAddr)
	if err != nil {
		return nil, err
	}
	if c.nodes.reached[key] != address {
		c.nodes.reached[key] = address
		c.hostDirty = true
	}
	addresses := append(r.Addresses[:min(len(r.Addresses), hostaddr.Most)], address)
	for i, a := range addresses {
		addresses[i] = a.Unmap()
	}
	// A zone may be any text, and the host's rules have these addresses as text.
	c.setNode(key, slices.DeleteFunc(addresses, func(a netip.Addr) bool { return !pipeline.OfOneHost(a) })...)
	return append(r.Ports, r.Port), nil
}

// parseMachine reads the address by which an entry says that a machine is reached.
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

// setPeer takes over another machine's end of the tunnels.
func (c *cache) setPeer(vtep netip.Addr) {
	if _, known := c.nodes.peers[vtep]; !known {
		c.peerChanged(vtep)
	}
	c.nodes.peers[vtep] = time.Time{}
}

// peerChanged has the switch and the host look at an end of tunnels.
func (c *cache) peerChanged(vtep netip.Addr) {
	c.mark(pipeline.KindPeer, pipeline.Peer{VTEP: vtep}.Key().ID)
	c.hostDirty = true
}

// unsetPeer forgets an end of tunnels at once, as it is not what its registration says.
func (c *cache) unsetPeer(vtep netip.Addr) {
	if _, known := c.nodes.peers[vtep]; known && !c.peers.addresses()[vtep] {
		delete(c.nodes.peers, vtep)
		c.peerChanged(vtep)
	}
}

// agePeers begins the grace of peers that are out of use, and forgets those whose grace is over.
// It says when the next one's is; zero: there is none.
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

// ageNodes does the same with addresses of machines. One that is an end of tunnels in use is no machine that has gone.
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

// vanish begins the grace of the addresses of an entry that is gone.
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

func (n nodes) ports() []uint16 { return slices.Sorted(maps.Keys(n.masterPorts)) }
