package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// nodes are the addresses by which the machines of the cluster know each other, and the
// ports of netmasters, from the registry. Endpoints are kept away from them.
//
// What an entry had when it vanished stays until the agent ends: a process is gone then,
// but perhaps not its machine.
type nodes struct {
	addresses   map[string][]netip.Addr // by key of the entry; sorted
	masterPorts map[uint16]struct{}
	peers       map[string]pipeline.Peer // other machines' ends of tunnels, by the id of the peer
}

func newNodes() nodes {
	return nodes{addresses: make(map[string][]netip.Addr), masterPorts: make(map[uint16]struct{}), peers: make(map[string]pipeline.Peer)}
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
	if !slices.Equal(c.nodes.addresses[key], addresses) {
		c.nodes.addresses[key] = addresses
		c.hostDirty = true
	}
}

func (c *cache) putAgent(id string, value []byte, _ int64) error {
	_, err := c.putNode(agentPrefix+id, value)
	return err
}

func (c *cache) putMaster(id string, value []byte, _ int64) error {
	port, err := c.putNode(masterPrefix+id, value)
	if err != nil {
		return err
	}
	if _, known := c.nodes.masterPorts[port]; !known {
		c.nodes.masterPorts[port] = struct{}{}
		c.hostDirty = true
	}
	return nil
}

// putNode takes over the addresses of a registry entry, and returns its port.
func (c *cache) putNode(key string, value []byte) (port uint16, err error) {
	var r struct {
		HostAddr  string
		Port      uint16
		Addresses []netip.Addr
	}
	if err := json.Unmarshal(value, &r); err != nil {
		return 0, err
	}
	address, err := netip.ParseAddr(r.HostAddr)
	if err != nil {
		return 0, fmt.Errorf("address %q: %w", r.HostAddr, err)
	}
	addresses := append(r.Addresses[:min(len(r.Addresses), hostaddr.Most)], address)
	for i, a := range addresses {
		addresses[i] = a.Unmap()
	}
	c.setNode(key, addresses...)
	return r.Port, nil
}

// setPeer takes over another machine's end of the tunnels.
func (c *cache) setPeer(vtep netip.Addr) {
	p := pipeline.Peer{VTEP: vtep}
	if _, known := c.nodes.peers[p.Key().ID]; !known {
		c.nodes.peers[p.Key().ID] = p
		c.mark(pipeline.KindPeer, p.Key().ID)
	}
}

func (n nodes) wantedPeer(id string) (pipeline.Object, error) {
	p, known := n.peers[id]
	if !known {
		return nil, fault.New(fault.NotFound, "peer %s is not known", id)
	}
	return p, nil
}

// remain keeps what is known when an entry vanishes.
func (*cache) remain(string) {}

func (n nodes) list() []netip.Addr {
	all := slices.Concat(slices.Collect(maps.Values(n.addresses))...)
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

func (n nodes) ports() []uint16 { return slices.Sorted(maps.Keys(n.masterPorts)) }
