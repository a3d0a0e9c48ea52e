package fakenode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/utils/fault"
)

// Switch is a datapath of veth pairs and one Linux bridge, in the network namespace of the process. A port is
// recognized by its host side, whose alias is the id of the endpoint as in a real switch; it forwards once it is
// enslaved to the bridge. Each port also has a file with the name of its host side, which, like the rows of a real
// switch, outlives the link.
type Switch struct {
	Faults
	cluster *Cluster
	mu      sync.Mutex // held while links change

	claims sync.Map // endpoint id -> true once attached or held, false once prepared
}

const (
	bridgeName = "br-fake"
	portPrefix = "vvport"
	// PortMTU is the MTU of the fake datapath.
	PortMTU = 1450
)

// NewSwitch creates the bridge, unless it exists, and gives it the gateway addresses of the networks.
func NewSwitch(cluster *Cluster) (*Switch, error) {
	err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName, MTU: PortMTU}})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("add bridge: %w", err)
	}
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return nil, err
	}
	s, err := cluster.read()
	if err != nil {
		return nil, err
	}
	for _, nw := range s.Networks {
		for _, gateway := range []struct {
			address string
			bits    uint
		}{{nw.Gateway, nw.SubnetLen}, {nw.IPv6Gateway, nw.IPv6SubnetLen}} {
			if gateway.address == "" {
				continue
			}
			addr, err := netlink.ParseAddr(netip.PrefixFrom(netip.MustParseAddr(gateway.address), int(gateway.bits)).String())
			if err != nil {
				return nil, err
			}
			addr.Flags = unix.IFA_F_NODAD
			if err := netlink.AddrReplace(bridge, addr); err != nil {
				return nil, fmt.Errorf("add gateway %s: %w", gateway.address, err)
			}
		}
	}
	return &Switch{cluster: cluster}, netlink.LinkSetUp(bridge)
}

// Ready returns nil unless a fault was set for it.
func (s *Switch) Ready() error { return s.enter(Ready) }

// PreparePort creates the veth pair of an endpoint, or returns the existing one.
func (s *Switch) PreparePort(_ context.Context, endpointID string, netns int) (drivers.Port, error) {
	if err := s.enter(PreparePort); err != nil {
		return drivers.Port{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims.LoadOrStore(endpointID, false)
	port, err := find(endpointID)
	if err != nil || port != nil {
		return toPort(endpointID, port), err
	}
	for n := 1; ; n++ {
		veth := &netlink.Veth{
			LinkAttrs:     netlink.LinkAttrs{Name: fmt.Sprintf("%s%d", portPrefix, n), MTU: PortMTU},
			PeerName:      fmt.Sprintf("vport%d", n),
			PeerNamespace: netlink.NsFd(netns),
		}
		err := netlink.LinkAdd(veth)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = netlink.LinkSetAlias(veth, endpointID)
		}
		if err == nil {
			err = netlink.LinkSetUp(veth)
		}
		if err != nil {
			return drivers.Port{}, fmt.Errorf("add port of %s: %w", endpointID, err)
		}
		if err := os.WriteFile(s.row(endpointID), []byte(veth.Name), 0o600); err != nil {
			return drivers.Port{}, err
		}
		s.done(PreparePort)
		return toPort(endpointID, veth), nil
	}
}

// Await returns an endpoint of the cluster.
func (s *Switch) Await(_ context.Context, endpointID string, _ int64) (k8splugin.Attachment, error) {
	endpoint, network, err := s.cluster.lookup(endpointID)
	return k8splugin.Attachment{Endpoint: endpoint, Network: network}, err
}

// Attach makes the bridge forward for the endpoint.
func (s *Switch) Attach(_ context.Context, endpointID string, _ int64) (k8splugin.Attachment, error) {
	if err := s.enter(Attach); err != nil {
		return k8splugin.Attachment{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	endpoint, network, err := s.cluster.lookup(endpointID)
	if err != nil {
		return k8splugin.Attachment{}, err
	}
	port, err := find(endpointID)
	if err != nil {
		return k8splugin.Attachment{}, err
	}
	if port == nil {
		return k8splugin.Attachment{}, fmt.Errorf("endpoint %s has no port", endpointID)
	}
	bridge, err := netlink.LinkByName(bridgeName)
	if err != nil {
		return k8splugin.Attachment{}, err
	}
	if err := netlink.LinkSetMaster(port, bridge); err != nil {
		return k8splugin.Attachment{}, fmt.Errorf("forward for %s: %w", endpointID, err)
	}
	s.claims.Store(endpointID, true)
	s.done(Attach)
	return k8splugin.Attachment{Port: toPort(endpointID, port), Endpoint: endpoint, Network: network}, nil
}

// Detach removes the veth pair.
func (s *Switch) Detach(_ context.Context, endpointID string) error {
	if err := s.enter(Detach); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims.Delete(endpointID)
	if err := os.Remove(s.row(endpointID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	port, err := find(endpointID)
	if err != nil || port == nil {
		return err
	}
	if err := netlink.LinkDel(port); err != nil {
		return fmt.Errorf("remove port of %s: %w", endpointID, err)
	}
	s.done(Detach)
	return nil
}

// Hold records a container that an earlier run attached.
func (s *Switch) Hold(at k8splugin.Attachment) { s.claims.Store(at.Endpoint.ID, true) }

// Unannounced returns the held endpoints that the cluster does not have.
func (s *Switch) Unannounced() []string {
	var ids []string
	s.claims.Range(func(id, attached any) bool {
		if _, _, err := s.cluster.lookup(id.(string)); attached == true && fault.Is(err, fault.NotFound) {
			ids = append(ids, id.(string))
		}
		return true
	})
	return ids
}

// Unclaimed returns the endpoints of the node that no container has, without a grace period.
func (s *Switch) Unclaimed(func(boot string) bool) []k8splugin.Attachment {
	state, err := s.cluster.read()
	if err != nil {
		return nil
	}
	var found []k8splugin.Attachment
	for id, ep := range state.Endpoints {
		if _, claimed := s.claims.Load(id); claimed || ep.HomingHost != HostLabel {
			continue
		}
		var port drivers.Port
		if link, err := os.ReadFile(s.row(id)); err == nil {
			port = drivers.Port{EndpointID: id, HostLink: string(link)}
		}
		found = append(found, k8splugin.Attachment{Port: port, Endpoint: ep, Network: state.Networks[ep.NetID]})
	}
	return found
}

// Ports returns the ports; ports that the kernel fails to list are missing.
func (s *Switch) Ports() []drivers.Port {
	links, err := list()
	if err != nil {
		return nil
	}
	var ports []drivers.Port
	for _, l := range links {
		if id := l.Attrs().Alias; isPort(l) && id != "" {
			ports = append(ports, toPort(id, l))
		}
	}
	return ports
}

// row returns the path of the file of an endpoint's port.
func (s *Switch) row(endpointID string) string {
	return filepath.Join(filepath.Dir(s.cluster.path), "port-"+endpointID)
}

// find returns the host side of an endpoint's port, nil if there is none.
func find(endpointID string) (netlink.Link, error) {
	links, err := list()
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		if isPort(l) && l.Attrs().Alias == endpointID {
			return l, nil
		}
	}
	return nil, nil
}

// isPort reports whether a link is the host side of a port.
func isPort(l netlink.Link) bool { return strings.HasPrefix(l.Attrs().Name, portPrefix) }

// list returns all links; it repeats a listing that was interrupted by changes.
func list() (links []netlink.Link, err error) {
	for range 100 {
		if links, err = netlink.LinkList(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			return links, err
		}
	}
	return links, err
}

// Remove removes the bridge and all ports.
func (s *Switch) Remove() error {
	links, err := list()
	for _, l := range links {
		if l.Attrs().Name == bridgeName || isPort(l) {
			if gone := netlink.LinkDel(l); !errors.Is(gone, unix.ENODEV) { // already removed with its container
				err = errors.Join(err, gone)
			}
		}
	}
	return err
}

func toPort(endpointID string, l netlink.Link) drivers.Port {
	if l == nil {
		return drivers.Port{}
	}
	name := l.Attrs().Name
	return drivers.Port{
		EndpointID: endpointID,
		HostLink:   name,
		PodLink:    strings.TrimPrefix(name, "v"),
		OFPort:     uint32(l.Attrs().Index),
		MTU:        PortMTU,
	}
}
