package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/secret"
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
	speaker, err := r.Speaker()
	if err != nil {
		return nil, err
	}
	if secret.Sealed(string(r.Password)) {
		return nil, errors.New("its password is sealed: netmasters tell it to who asks them for the state (--netmasters)")
	}
	part := &BGP{AS: speaker.AS, Link: speaker.Link, Link6: speaker.Link6}
	for _, n := range speaker.Neighbours {
		part.Neighbours = append(part.Neighbours, bgp.Neighbour{Address: n.Address, AS: n.AS, Password: speaker.Password, HoldTime: speaker.HoldTime})
	}
	return part, nil
}

// speak tells the border what has changed about this node as a router, and at first what
// it is. Only where networks are routed there is anything to route to.
func (a *Agent) speak() {
	own := a.cache.routers.own
	if a.cache.mode.Bridged() {
		own = nil
	}
	if own == a.told && a.spoken {
		return
	}
	a.told, a.spoken = own, true
	switch {
	case a.cfg.Border != nil:
		a.cfg.Border.Configure(own)
	case own != nil:
		a.log.Warn("the node is to speak BGP, and cannot: it has no uplink")
	}
}

// routedVLAN is a network of encapsulation vlan in forwarding mode routing.
func routedVLAN(n pipeline.Network) bool { return n.Encap == pipeline.VLAN && !n.Mode.Bridged() }
