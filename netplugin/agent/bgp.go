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
	// Inspect says how it stands with that; nil: there is nothing to say.
	Inspect() *mastercfg.NodeBgp
}

// routers are the nodes that are routers.
type routers struct {
	addresses map[string]netip.Addr // by host
	own       *BGP
	unusable  error // of this node's record; nil: there is none, or it is of use
}

func newRouters() routers { return routers{addresses: map[string]netip.Addr{}} }

// putBGP takes a record; what is wrong with that of this node is told to who asks for its BGP.
func (c *cache) putBGP(host string, value []byte, _ int64) error {
	var record mastercfg.CfgBgpState
	var part *BGP
	err := json.Unmarshal(value, &record)
	if err == nil {
		part, err = bgpPart(record)
	}
	if err != nil {
		err = fmt.Errorf("bgp of host %s: %w", host, err)
	}
	if host == c.host {
		c.routers.unusable, err = err, nil
	}
	c.setRouter(host, part)
	return err
}

func (c *cache) removeBGP(host string) {
	if host == c.host {
		c.routers.unusable = nil
	}
	c.setRouter(host, nil)
}

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

// updateBorder passes the node's BGP configuration to package border, at the start and after changes. The reason why the node
// cannot be a router is logged once.
func (a *Agent) updateBorder() {
	own, mute := a.cache.routers.own, a.whyNoRouter()
	if mute != "" {
		own = nil
	}
	if mute != a.mute && mute != "" {
		a.log.Warn(mute)
	}
	a.mute = mute
	if own == a.told && a.spoken {
		return
	}
	a.told, a.spoken = own, true
	if a.cfg.Border != nil {
		a.cfg.Border.Configure(own)
	}
}

// whyNoRouter returns why the node cannot be the router that is configured; "": it can, or none is configured.
// A router needs routed networks.
func (a *Agent) whyNoRouter() string {
	switch routers := a.cache.routers; {
	case routers.unusable != nil:
		return "the node is to speak BGP, and cannot: " + routers.unusable.Error()
	case routers.own == nil:
		return ""
	case a.cache.mode.Bridged():
		return "the node is to speak BGP, and the forwarding mode of the cluster is bridge: there is nothing to route to"
	case a.cfg.Border == nil:
		return "the node is to speak BGP, and has no uplink: start netplugin with --vlan-uplinks"
	}
	return ""
}

// InspectBGP says how it stands with the node as a router, or why it is none though the store has it be one; nil: it is to be none.
func (a *Agent) InspectBGP() *mastercfg.NodeBgp {
	a.mu.Lock()
	mute := a.mute
	a.mu.Unlock()
	switch {
	case mute != "":
		return &mastercfg.NodeBgp{Peers: []mastercfg.NodeBgpPeer{}, Dsts: []string{}, Problem: mute}
	case a.cfg.Border == nil:
		return nil
	}
	return a.cfg.Border.Inspect()
}

// routedVLAN is a network of encapsulation vlan in forwarding mode routing.
func routedVLAN(n pipeline.Network) bool { return n.Encap == pipeline.VLAN && !n.Mode.Bridged() }
