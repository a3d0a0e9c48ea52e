package main

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/nameserver"
)

// resolvConf has the name servers of the host itself.
const resolvConf = "/etc/resolv.conf"

// nobody, as --dns-upstream, disables forwarding.
const nobody = "none"

// namesOptions configure the name server.
type namesOptions struct {
	on        bool
	upstream  string // as on the command line
	forwarder *nameserver.Forwarder
}

// complete determines the upstream servers.
func (o *namesOptions) complete() []error {
	switch o.upstream {
	case nobody:
		return nil
	case "":
		o.forwarder = nameserver.NewForwarder(nameserver.FromFile(resolvConf, time.Now))
		return nil
	}
	var servers []netip.AddrPort
	for text := range strings.SplitSeq(o.upstream, ",") {
		server, err := nameserver.ParseServer(strings.TrimSpace(text))
		if err != nil {
			return []error{fmt.Errorf("--dns-upstream: %w", err)}
		}
		servers = append(servers, server)
	}
	o.forwarder = nameserver.NewForwarder(nameserver.Fixed(servers...))
	return nil
}

// zones returns the names for the agent to fill; nil: there is no name server.
func (o *namesOptions) zones() *nameserver.Zones {
	if !o.on {
		return nil
	}
	return nameserver.NewZones()
}

// newNameServer returns the node's name server for the endpoints of all bridges; without zones it answers no
// query.
func newNameServer(o *namesOptions, zones *nameserver.Zones, node *agent.Agent, bridges []*ovsd.Driver) *nameserver.Node {
	if zones == nil {
		return nameserver.NewNode(nameserver.NewZones(), nil, node.AwaitState)
	}
	var places []nameserver.Place
	for _, bridge := range bridges {
		places = append(places, bridge)
	}
	return nameserver.NewNode(zones, o.forwarder, node.AwaitState, places...)
}
