package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/hostaddr"
)

// nodes are the addresses by which the machines of the cluster know each other, and the
// ports of netmasters, from the registry. Endpoints are kept away from them.
//
// What is known stays until the agent ends: a registry entry that vanishes says that a
// process is gone, not that its machine is.
type nodes struct {
	addresses   map[netip.Addr]struct{}
	masterPorts map[uint16]struct{}
}

func newNodes() nodes {
	return nodes{addresses: make(map[netip.Addr]struct{}), masterPorts: make(map[uint16]struct{})}
}

// nodePrefixes are where machines register: all of them have an address of a node.
const (
	agentPrefix  = objdb.ServicePrefix + mastercfg.AgentService + "/"
	masterPrefix = objdb.ServicePrefix + mastercfg.MasterService + "/"
)

// addNode notes the address of a machine.
func (c *cache) addNode(address netip.Addr) {
	if _, known := c.nodes.addresses[address]; !known {
		c.nodes.addresses[address] = struct{}{}
		c.hostDirty = true
	}
}

func (c *cache) putAgent(_ string, value []byte, _ int64) error {
	_, err := c.putNode(value)
	return err
}

func (c *cache) putMaster(_ string, value []byte, _ int64) error {
	port, err := c.putNode(value)
	if err != nil {
		return err
	}
	if _, known := c.nodes.masterPorts[port]; !known {
		c.nodes.masterPorts[port] = struct{}{}
		c.hostDirty = true
	}
	return nil
}

// putNode notes the addresses of a registry entry, and returns its port.
func (c *cache) putNode(value []byte) (port uint16, err error) {
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
	for _, a := range append(r.Addresses[:min(len(r.Addresses), hostaddr.Most)], address) {
		c.addNode(a.Unmap())
	}
	return r.Port, nil
}

// remain keeps what is known when an entry vanishes.
func (*cache) remain(string) {}

func (n nodes) list() []netip.Addr {
	return slices.SortedFunc(maps.Keys(n.addresses), netip.Addr.Compare)
}

func (n nodes) ports() []uint16 { return slices.Sorted(maps.Keys(n.masterPorts)) }
