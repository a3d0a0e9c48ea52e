package pipeline

import (
	"net/netip"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// A load balancer may give a service the address of a machine, such as a node. Only what is for a port of the service
// there is the service's, and the switch answers for nothing else of it: endpoints ask the machine, as if there was no
// service. What tells the one from the other is the port, so
//
//   - fragments are the machine's, as later ones do not say it. The host leads those that it has put together to the service, if the address is its own;
//   - of TCP a connection to the service begins with a SYN: an endpoint that answers a process of the machine which has asked it from
//     a port of that number sends none;
//   - errors are the service's if they are about what it has answered, and else the machine's.
//
// Who comes in by the machine itself is led to what stands in for the address (StandIns).

// A process of the machine at that very port may be a provider. So a connection that has begun begins no more, though
// it is still for the address.

// looked matches what the tracker is asked about.
func (p ServicePort) looked() openflow.Match {
	to := p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)
	if p.Machine {
		to = append(to, openflow.IPWhole())
	}
	return to
}

// opens matches of that what may begin a connection.
func (p ServicePort) opens() openflow.Match {
	to := p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)
	if p.Machine && p.Protocol == openflow.ProtoTCP {
		to = append(to, openflow.TCPFlags(openflow.TCPSyn, openflow.TCPSyn|openflow.TCPAck))
	}
	return to
}

// begins matches what is of no connection yet.
func (p ServicePort) begins() openflow.Match {
	if p.Machine {
		return append(p.opens(), openflow.CTMark(0, ^uint32(0)))
	}
	return p.opens()
}

// atMachines are the flows for endpoints at the addresses of machines, besides those of the ports that have providers.
func (s services) atMachines(w *Wants, o arranged, serving map[netip.Addr]bool) {
	seen := map[netip.Addr]bool{}
	for _, p := range o.Ports {
		if !p.Machine || p.From&FromPods == 0 {
			continue
		}
		to := p.matches(openflow.TCPDst, openflow.UDPDst, p.Port)
		if len(o.behind(p)) == 0 && !p.Silent {
			w.flow(s.arrival(o.Service, p.Address, priorityRefuse, append(p.opens(), openflow.IPWhole())...).goTo(tableAnswer))
		}
		if len(p.Sources) > 0 { // the machine does not know who asks
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
