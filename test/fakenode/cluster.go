package fakenode

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// Cluster is a netmaster with its store.
type Cluster struct {
	Faults
	path string
	mu   sync.Mutex
}

// state is the content of the file.
type state struct {
	Revision  int64
	Networks  map[string]mastercfg.CfgNetworkState
	Groups    map[string]bool
	Endpoints map[string]mastercfg.CfgEndpointState
}

// OpenCluster returns a cluster with its state in a file.
func OpenCluster(path string) *Cluster { return &Cluster{path: path} }

// AddNetwork adds a network; an invalid prefix leaves out the family, the gateway is the first address of each.
func (c *Cluster) AddNetwork(tenant, name string, v4, v6 netip.Prefix) error {
	return c.update(func(s *state) error {
		nw := mastercfg.CfgNetworkState{ID: mastercfg.NetworkID(tenant, name), Tenant: tenant, NetworkName: name, NwType: "data"}
		if v4.IsValid() {
			nw.SubnetIP, nw.SubnetLen, nw.Gateway = v4.Addr().String(), uint(v4.Bits()), v4.Addr().Next().String()
		}
		if v6.IsValid() {
			nw.IPv6Subnet, nw.IPv6SubnetLen, nw.IPv6Gateway = v6.Addr().String(), uint(v6.Bits()), v6.Addr().Next().String()
		}
		s.Networks[nw.ID] = nw
		return nil
	})
}

// AddGroup adds an endpoint group.
func (c *Cluster) AddGroup(tenant, name string) error {
	return c.update(func(s *state) error {
		s.Groups[mastercfg.EndpointGroupID(tenant, name)] = true
		return nil
	})
}

// CreateEndpoint allocates addresses; it is idempotent by container.
func (c *Cluster) CreateEndpoint(_ context.Context, r mastercfg.CreateEndpointRequest) (ep mastercfg.CfgEndpointState, revision int64, err error) {
	if err := c.enter(CreateEndpoint); err != nil {
		return ep, 0, err
	}
	err = c.update(func(s *state) error {
		nw, ok := s.Networks[mastercfg.NetworkID(r.TenantName, r.NetworkName)]
		if !ok {
			return fault.New(fault.NotFound, "network %s of tenant %s does not exist", r.NetworkName, r.TenantName)
		}
		group := r.ConfigEP.ServiceName
		if group != "" && !s.Groups[mastercfg.EndpointGroupID(r.TenantName, group)] {
			return fault.New(fault.NotFound, "group %s of tenant %s does not exist", group, r.TenantName)
		}
		id := mastercfg.EndpointID(nw.ID, r.ConfigEP.Container)
		if ep, ok = s.Endpoints[id]; !ok {
			ep = mastercfg.CfgEndpointState{
				ID: id, NetID: nw.ID, EndpointID: r.EndpointID, ServiceName: group,
				HomingHost: r.ConfigEP.Host, ContainerID: r.ConfigEP.Container, EPCommonName: r.EPCommonName, Boot: r.Boot,
			}
			if err := s.allocate(&ep, nw, r.ConfigEP); err != nil {
				return err
			}
			s.Endpoints[id] = ep
		}
		revision = s.Revision
		return nil
	})
	if err == nil {
		c.done(CreateEndpoint)
	}
	return ep, revision, err
}

// allocate assigns addresses of both families and the MAC address derived from them.
func (s *state) allocate(ep *mastercfg.CfgEndpointState, nw mastercfg.CfgNetworkState, want mastercfg.ConfigEP) (err error) {
	if ep.IPAddress, err = s.free(nw.SubnetIP, nw.SubnetLen, want.IPAddress); err != nil {
		return err
	}
	if ep.IPv6Address, err = s.free(nw.IPv6Subnet, nw.IPv6SubnetLen, want.IPv6Address); err != nil {
		return err
	}
	address := netip.MustParseAddr(cmp.Or(ep.IPAddress, ep.IPv6Address)).AsSlice()
	ep.MacAddress = net.HardwareAddr(append([]byte{2, 2}, address[len(address)-4:]...)).String()
	return nil
}

// free returns the wanted address, or the lowest free one after the gateway.
func (s *state) free(subnet string, bits uint, want string) (string, error) {
	if subnet == "" {
		return "", nil
	}
	taken := map[string]bool{}
	for _, ep := range s.Endpoints {
		taken[ep.IPAddress], taken[ep.IPv6Address] = true, true
	}
	if want != "" {
		if taken[want] {
			return "", fault.New(fault.Conflict, "address %s is taken", want)
		}
		return want, nil
	}
	pool := netip.PrefixFrom(netip.MustParseAddr(subnet), int(bits))
	for a := pool.Addr().Next().Next(); pool.Contains(a.Next()); a = a.Next() {
		if !taken[a.String()] {
			return a.String(), nil
		}
	}
	return "", fault.New(fault.Exhausted, "no free address in %s", pool)
}

// DeleteEndpoint releases an endpoint's addresses.
func (c *Cluster) DeleteEndpoint(_ context.Context, r mastercfg.DeleteEndpointRequest) error {
	if err := c.enter(DeleteEndpoint); err != nil {
		return err
	}
	err := c.update(func(s *state) error {
		id := mastercfg.EndpointID(mastercfg.NetworkID(r.TenantName, r.NetworkName), r.EndpointID)
		if ep, ok := s.Endpoints[id]; !ok || r.Host != "" && ep.HomingHost != "" && ep.HomingHost != r.Host {
			return fault.New(fault.NotFound, "key not found: %s", id)
		}
		delete(s.Endpoints, id)
		return nil
	})
	if err == nil {
		c.done(DeleteEndpoint)
	}
	return err
}

// Endpoints returns the ids of all endpoints.
func (c *Cluster) Endpoints() ([]string, error) {
	s, err := c.read()
	var ids []string
	for id := range s.Endpoints {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, err
}

// Place adds an endpoint that was created by other means.
func (c *Cluster) Place(ep mastercfg.CfgEndpointState) error {
	return c.update(func(s *state) error {
		s.Endpoints[ep.ID] = ep
		return nil
	})
}

// Lose removes an endpoint, as restoring the store from a backup does.
func (c *Cluster) Lose(id string) error {
	return c.update(func(s *state) error {
		delete(s.Endpoints, id)
		return nil
	})
}

// lookup returns an endpoint and its network as of now.
func (c *Cluster) lookup(id string) (mastercfg.CfgEndpointState, mastercfg.CfgNetworkState, error) {
	s, err := c.read()
	if err != nil {
		return mastercfg.CfgEndpointState{}, mastercfg.CfgNetworkState{}, err
	}
	ep, ok := s.Endpoints[id]
	if !ok {
		return ep, mastercfg.CfgNetworkState{}, fault.New(fault.NotFound, "endpoint %s is not in the store", id)
	}
	return ep, s.Networks[ep.NetID], nil
}

func (c *Cluster) read() (state, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load()
}

// update applies a change in one step and increments the revision.
func (c *Cluster) update(change func(s *state) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.load()
	if err != nil {
		return err
	}
	s.Revision++
	if err := change(&s); err != nil {
		return err
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.Write(c.path, data)
}

func (c *Cluster) load() (state, error) {
	s := state{}
	data, err := os.ReadFile(c.path)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return s, fmt.Errorf("fake cluster: %w", err)
	}
	if s.Networks == nil {
		s.Networks = map[string]mastercfg.CfgNetworkState{}
		s.Groups = map[string]bool{}
		s.Endpoints = map[string]mastercfg.CfgEndpointState{}
	}
	return s, nil
}
