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

// BGP is the BGP configuration of this node in the store.
type BGP struct {
	AS         uint32
	Link       netip.Prefix // the node's IPv4 address in the subnet of its neighbours, with the length of that subnet
	Link6      netip.Prefix // the same for IPv6; invalid: link-local only
	Neighbours []bgp.Neighbour
}

// Border runs the node's BGP speaker.
type Border interface {
	// Configure replaces the configuration; nil stops the speaker. It does not block.
	Configure(*BGP)
	// Inspect returns the state of the speaker; nil: there is none to report.
	Inspect() *mastercfg.NodeBgp
}

// routers are the BGP configurations of the nodes.
type routers struct {
	addresses map[string]netip.Addr // by host
	own       *BGP
	unusable  error // why this node's record cannot be used; nil: it can, or does not exist
}

func newRouters() routers { return routers{addresses: map[string]netip.Addr{}} }

// putBGP stores a record. Why that of this node cannot be used is reported by InspectBGP.
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

// bgpPart decodes a record. Without a neighbour only the address is set.
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

// borderState is what package border was told.
type borderState struct {
	config     *BGP   // nil: none
	configured bool   // it was told something
	problem    string // why the node cannot be the BGP router that is configured
}

// updateBorder passes the node's BGP configuration to package border, at the start and after changes. The reason why the node
// cannot be a router is logged once.
func (a *Agent) updateBorder() {
	own, problem := a.cache.routers.own, a.whyNoRouter()
	if problem != "" {
		own = nil
	}
	if problem != a.border.problem && problem != "" {
		a.log.Warn(problem)
	}
	a.border.problem = problem
	if own == a.border.config && a.border.configured {
		return
	}
	a.border.config, a.border.configured = own, true
	if a.cfg.Border != nil {
		a.cfg.Border.Configure(own)
	}
}

// whyNoRouter returns why the node cannot be the BGP router that is configured; "" if it can, or none is
// configured. A router needs routed networks.
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

// InspectBGP returns the state of the BGP speaker, or why the configured one cannot run; nil if none is
// configured.
func (a *Agent) InspectBGP() *mastercfg.NodeBgp {
	a.mu.Lock()
	problem := a.border.problem
	a.mu.Unlock()
	switch {
	case problem != "":
		return &mastercfg.NodeBgp{Peers: []mastercfg.NodeBgpPeer{}, Dsts: []string{}, Problem: problem}
	case a.cfg.Border == nil:
		return nil
	}
	return a.cfg.Border.Inspect()
}

// routedVLAN reports whether a network has encapsulation vlan and forwarding mode routing.
func routedVLAN(n pipeline.Network) bool { return n.Encap == pipeline.VLAN && !n.Mode.Bridged() }
