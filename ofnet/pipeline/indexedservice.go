package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// indexedService is a service with indexes of its ports, so that the ports related to one are found without visiting
// all of them: there may be tens of thousands.
type indexedService struct {
	Service
	at      map[asking][]ServicePort // those that differ in their clients only
	onlyUDP map[netip.Addr]uint16    // the number of the only UDP port at an address; 0: there are several
	first   map[remembering]uint32   // the group of the first port of those that share the stored providers of clients
}

// asking is the destination of clients: an address, a protocol and a port number.
type asking struct {
	address  netip.Addr
	protocol uint8
	port     uint16
}

func (p ServicePort) asked() asking { return asking{p.Address, p.Protocol, p.Port} }

// remembering is what ports have in common that share the stored providers of clients.
type remembering struct {
	name     string
	target   uint16
	protocol uint8
	ipv4     bool
}

func (p ServicePort) memory() remembering {
	return remembering{p.Name, p.Target, p.Protocol, p.Address.Is4()}
}

func indexService(o Service) indexedService {
	all := indexedService{o, make(map[asking][]ServicePort, len(o.Ports)), map[netip.Addr]uint16{}, map[remembering]uint32{}}
	for _, p := range o.Ports {
		all.at[p.asked()] = append(all.at[p.asked()], p)
		if _, known := all.first[p.memory()]; !known {
			all.first[p.memory()] = p.Group
		}
		if p.Protocol != openflow.ProtoUDP {
			continue
		}
		if only, known := all.onlyUDP[p.Address]; !known {
			all.onlyUDP[p.Address] = p.Port
		} else if only != p.Port {
			all.onlyUDP[p.Address] = 0
		}
	}
	return all
}

// counted returns the providers for which a port has flows that count requests. Such a flow matches
// the port's address, protocol and number, not the client: of two ports that differ only in their
// clients, the first has it for a provider of both.
func (o indexedService) counted(p ServicePort) (all []netip.Addr) {
	before := map[netip.Addr]bool{}
	for _, other := range o.at[p.asked()] {
		own := other.From == p.From
		for _, at := range o.behind(other) {
			if a := at.Addr(); !before[a] {
				before[a] = true
				if own {
					all = append(all, a)
				}
			}
		}
		if own {
			break
		}
	}
	return all
}

// outer matches the clients of a port, if other clients get other providers: those that came from outside, or all
// others.
func (o indexedService) outer(p ServicePort) openflow.Match {
	for _, other := range o.at[p.asked()] {
		if other.From != p.From {
			return openflow.Match{regOuter.is(uint32(p.From&FromOutside) / uint32(FromOutside))}
		}
	}
	return nil
}

// remembered returns the number under which the clients of a port are stored: that of the group of the service's
// first port of the same name, protocol and IP family. Providers do not matter: those for clients from outside may
// be others, and they change. The timeout does: a learned flow keeps its first one, and ovs-vswitchd may learn with
// the old one for a moment after a change, from packets that it counts late. These flows are not looked up then.
func (o indexedService) remembered(p ServicePort) uint32 {
	return o.first[p.memory()] ^ uint32(o.Affinity)
}
