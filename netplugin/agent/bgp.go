package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// BGP is what the store says of this node as a router.
type BGP struct {
	AS         uint32
	Link       netip.Prefix // the node's IPv4 address among the routers, with the length of their subnet
	Link6      netip.Prefix // the same of IPv6; invalid: none but the link-local one
	Neighbours []bgp.Neighbour
}

// Border makes the node a router among those outside.
type Border interface {
	// Configure tells what kind of router; nil: none. It returns at once.
	Configure(*BGP)
}

// routers are the nodes that are routers.
type routers struct {
	addresses map[string]netip.Addr // by host
	own       *BGP
}

func newRouters() routers { return routers{addresses: map[string]netip.Addr{}} }

func (c *cache) putBGP(host string, value []byte, _ int64) error {
	var record mastercfg.CfgBgpState
	if err := json.Unmarshal(value, &record); err != nil {
		return err
	}
	part, err := bgpPart(record)
	if err != nil {
		return fmt.Errorf("bgp of host %s: %w", host, err)
	}
	c.setRouter(host, part)
	return nil
}

func (c *cache) removeBGP(host string) { c.setRouter(host, nil) }

func (c *cache) setRouter(host string, part *BGP) {
	if host == c.host {
		c.routers.own = part
	}
	address := netip.Addr{}
	if part != nil {
		address = part.Link.Addr()
	}
	if c.routers.addresses[host] == address {
		return
	}
	if part == nil {
		delete(c.routers.addresses, host)
	} else {
		c.routers.addresses[host] = address
	}
	c.markHost(host)
}

// bgpPart reads a record. Without a neighbour the node has the address only.
func bgpPart(r mastercfg.CfgBgpState) (*BGP, error) {
	link, err := netip.ParsePrefix(r.RouterIP)
	if err != nil || !link.Addr().Is4() || link.Addr() == link.Masked().Addr() && link.Bits() < 31 {
		return nil, fmt.Errorf("router address %q is not an IPv4 address with a length", r.RouterIP)
	}
	part := &BGP{Link: link}
	if r.As == "" && r.Neighbor == "" {
		return part, nil
	}
	if part.AS, err = asNumber(r.As); err != nil {
		return nil, fmt.Errorf("AS: %w", err)
	}
	if r.Neighbor == "" {
		return part, nil
	}
	n := bgp.Neighbour{}
	if n.Address, err = netip.ParseAddr(r.Neighbor); err != nil {
		return nil, fmt.Errorf("neighbour %q is not an address", r.Neighbor)
	}
	if n.AS, err = asNumber(r.NeighborAs); err != nil {
		return nil, fmt.Errorf("AS of neighbour %s: %w", n.Address, err)
	}
	if !link.Contains(n.Address) || n.Address == link.Addr() {
		return nil, fmt.Errorf("neighbour %s is not another router of %s", n.Address, link.Masked())
	}
	part.Neighbours = []bgp.Neighbour{n}
	return part, nil
}

func asNumber(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a number from 1 to 4294967295", text)
	}
	return uint32(n), nil
}

// speak tells the border what has changed about this node as a router. Only where
// networks are routed there is anything to route to.
func (a *Agent) speak() {
	own := a.cache.routers.own
	if a.cache.mode.Bridged() {
		own = nil
	}
	if own == a.told {
		return
	}
	a.told = own
	if a.cfg.Border != nil {
		a.cfg.Border.Configure(own)
	} else {
		a.log.Warn("the node is to speak BGP, and cannot: it has no uplink")
	}
}

// routedVLAN is a network of encapsulation vlan in forwarding mode routing.
func routedVLAN(n pipeline.Network) bool { return n.Encap == pipeline.VLAN && !n.Mode.Bridged() }
