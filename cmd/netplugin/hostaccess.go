package main

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/mgmtfn/k8splugin"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/border"
	"github.com/contiv/netplugin/netplugin/hostaccess"
	"github.com/contiv/netplugin/utils/inet"
	"github.com/contiv/netplugin/utils/ports"
)

// newHostAccess returns the manager of the host's own interfaces. It asks the parts that are made by now.
func (p *parts) newHostAccess() *hostaccess.Manager {
	tunnel := p.own[0]
	return hostaccess.New(hostaccess.Config{
		HostLabel: p.o.node.HostLabel, Datapath: p.agent, Master: p.master, Reports: p.agent,
		Switch: hostaccess.Switch{
			Netdev: inUserspace(p.driver), TunnelLinks: tunnel.TunnelLinks, KernelReceives: kernelReceives(tunnel), VTEP: p.o.node.VTEP,
		},
		Barred:     hostaccess.Barred{Closed: closedFor(p.o), StoreURLs: p.db.MemberURLs, RouterLink: border.Interface},
		Entrances:  hostaccess.Entrances{NodePortsAt: p.o.nodePortsAt, Own: p.o.node.CtrlIP},
		Containers: p.containers(),
	})
}

// containers returns what the CNI server knows of the containers of this node, and the switch of their ports.
func (p *parts) containers() hostaccess.Containers {
	numbers := func() (map[string]uint32, error) { return numbersOfPorts(p.agent, p.driver) }
	return hostaccess.Containers{
		Pods: attachedPods(p.cni), HostPorts: hostPorts(p.cni, numbers), Numbers: numbers, PortsMoved: p.portsMoved, Probed: p.o.probed,
	}
}

// hostPorts returns the ports of the host that are forwarded to attached containers, with the containers' port
// numbers in the switch, which are known when the agent is ready.
func hostPorts(cni *k8splugin.Server, numbersOf func() (map[string]uint32, error)) func() ([]hostaccess.HostPort, error) {
	if cni == nil {
		return nil
	}
	return func() (all []hostaccess.HostPort, err error) {
		wanted := cni.HostPorts()
		if len(wanted) == 0 {
			return nil, nil
		}
		numbers, err := numbersOf()
		for _, p := range wanted {
			if numbers[p.EndpointID] == 0 {
				continue
			}
			to := hostaccess.HostPort{HostPort: p.HostPort, Number: numbers[p.EndpointID], Endpoint: p.EndpointID}
			for _, a := range p.Addresses {
				to.IPv4, to.IPv6 = to.IPv4 || a.Addr().Is4(), to.IPv6 || a.Addr().Is6()
			}
			all = append(all, to)
		}
		return all, err
	}
}

// attachedPods returns the attached pods of this node.
func attachedPods(cni *k8splugin.Server) func() []hostaccess.Pod {
	if cni == nil {
		return nil
	}
	return func() (all []hostaccess.Pod) {
		for _, r := range cni.Attached() {
			p := hostaccess.Pod{Tenant: r.Tenant, Endpoint: r.EndpointID()}
			for _, a := range r.Link.Addresses {
				p.Addresses = append(p.Addresses, a.Addr())
			}
			all = append(all, p)
		}
		return all
	}
}

// numbersOfPorts returns the port numbers of endpoints, by endpoint id.
func numbersOfPorts(node *agent.Agent, driver drivers.NetworkDriver) (map[string]uint32, error) {
	if err := node.Ready(); err != nil {
		return nil, err
	}
	numbers := map[string]uint32{}
	for _, p := range driver.Ports() {
		numbers[p.EndpointID] = p.OFPort
	}
	return numbers, nil
}

// Default ports of netmaster and etcd, and of BGP.
var standardPorts = []uint16{ports.Netmaster, ports.EtcdClient, ports.EtcdPeer, ports.BGP}

// ownPorts are those of the API server and kubelet, and those of netplugin's health checks for services (package
// kubehealth).
var ownPorts = []uint16{ports.KubeAPI, ports.Kubelet, ports.ServiceHealth, ports.ProxyMode}

// neededBy returns a function that reports whether every node needs a port itself, as far as the command line
// says.
func neededBy(closed hostaccess.Closed) func(protocol uint8, port uint16) bool {
	return func(protocol uint8, port uint16) bool {
		return closed.Holds(mastercfg.HostPort{Protocol: inet.TransportName(protocol), Port: port})
	}
}

// closedFor returns what endpoints must not reach, by the command line: the ports of the cluster, and machines of
// etcd that are given by an address.
func closedFor(o *options) hostaccess.Closed {
	closed := hostaccess.Closed{
		VXLANPort: o.node.VXLANPort, Ports: slices.Clone(standardPorts), Nodes: []netip.Addr{o.node.CtrlIP, o.node.VTEP}, Own: ownPorts,
	}
	addresses := []string{o.httpAddress}
	for _, endpoint := range o.Store.Endpoints {
		if u, err := url.Parse(endpoint); err == nil {
			addresses = append(addresses, u.Host)
		}
	}
	for _, address := range addresses {
		host, text, _ := net.SplitHostPort(address)
		if port, err := strconv.ParseUint(text, 10, 16); err == nil {
			closed.Ports = append(closed.Ports, uint16(port))
		}
		if a, err := netip.ParseAddr(host); err == nil && !a.IsLoopback() && !a.IsUnspecified() {
			closed.Nodes = append(closed.Nodes, a)
		}
	}
	return closed
}

// kernelReceives reports whether the kernel receives tunnels; known when the driver has read its bridge.
func kernelReceives(tunnel *ovsd.Driver) func() (yes, known bool) {
	return func() (yes, known bool) {
		datapath := tunnel.Status().Datapath
		return datapath == ovsd.DatapathSystem, datapath != ""
	}
}

// inUserspace reports whether ovs-vswitchd forwards packets itself.
func inUserspace(driver drivers.NetworkDriver) func() bool {
	return func() bool { return driver.Status().Datapath != ovsd.DatapathSystem }
}
