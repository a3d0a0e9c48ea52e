package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// A load balancer may assign a service the address of a machine, such as a node. Then only packets to a port of the
// service there are the service's; all others reach the machine, as if there was no service. Only the port
// distinguishes them, so
//
//   - fragments go to the machine, because later ones have no port. If the address is the host's own, the host
//     reassembles them and forwards them to the service;
//   - a TCP connection to the service begins with a SYN without ACK: replies of an endpoint to a process of
//     the machine, which has used the service's port number as source port, do not;
//   - ICMP errors are the service's if they are about its answers, and else the machine's.
//
// Packets of clients that come in by the machine itself go to an address that stands in for it (StandIns).
//
// A process of the machine at that very port may be a provider. Then a translated packet still has the address
// of the service, and must not begin another connection.

// looked matches packets that are looked up in the tracker.
func (p ServicePort) looked() openflow.Match {
	to := p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)
	if p.Machine {
		to = append(to, openflow.IPWhole())
	}
	return to
}

// opens matches those of them that may begin a connection.
func (p ServicePort) opens() openflow.Match {
	to := p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)
	if p.Machine && p.Protocol == openflow.ProtoTCP {
		to = append(to, openflow.TCPFlags(openflow.TCPSyn, openflow.TCPSyn|openflow.TCPAck))
	}
	return to
}

// begins matches packets of no connection yet.
func (p ServicePort) begins() openflow.Match {
	if p.Machine {
		return append(p.opens(), openflow.CTMark(0, ^uint32(0)))
	}
	return p.opens()
}

// atMachines has the flows for endpoints at the addresses of machines, besides those of the ports that have providers.
func (s services) atMachines(w *Wants, o indexedService, serving map[netip.Addr]bool) {
	seen := map[netip.Addr]bool{}
	for _, p := range o.Ports {
		if !p.Machine || p.From&FromPods == 0 {
			continue
		}
		to := p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)
		if len(o.behind(p)) == 0 && !p.Silent {
			w.flow(s.arrival(o.Service, p.Address, priorityRefuse, append(p.opens(), openflow.IPWhole())...).goTo(tableAnswer))
		}
		if len(p.Sources) > 0 { // the machine does not know the client's address
			w.flow(s.arrival(o.Service, p.Address, priorityExcept, append(to, openflow.IPFragment())...).drop(reasonNotServed))
		}
		if !serving[p.Address] || seen[p.Address] {
			continue
		}
		seen[p.Address] = true
		for _, m := range errorsAbout(p.Address) {
			w.flow(s.arrival(o.Service, p.Address, priorityExcept, m...).do(regRouted.set(1), o.translate(tableSource)).end())
		}
	}
}
