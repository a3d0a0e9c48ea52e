package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// overheard lets the agent learn the addresses of domain names. Rules of tiers may have domains as peers, and
// their addresses are only in the answers of name servers. So the agent gets a copy of what the providers of
// such a service send, by UDP, to endpoints whose egress is restricted by tiers. The answer itself is delivered
// as always, whether the agent gets the copy or not. Only providers are trusted, by their own addresses and
// ports: the guard lets no other endpoint send from there.
//
//	TRACK      from such a provider: resubmitted to OVERHEARD, and continues
//	OVERHEARD  to a port of an endpoint that is judged: a copy, by the meter of the port
//
// If a pod gets more answers than its share, the agent learns the rest when the pod repeats the
// query, and others are not affected.
type overheard struct{ noMeter bool }

// PacketAnswer is the class of answers of name servers.
const PacketAnswer PacketClass = 4

// How many answers to one port the agent may receive. It is less at once than the agent's queue holds
// (drivers/ovsd/packets.go), and twenty ports that use all of theirs cost it some thousandths of its time.
const (
	overheardPerSecond = 50
	overheardAtOnce    = 50
)

// endpoint's flow copies an answer to the agent.
func (h overheard) endpoint(w *Wants, e placed) {
	if h.noMeter || !e.local() || e.Tiers&JudgesOut == 0 {
		return
	}
	meter := overheardMeter(e.port)
	w.Meters = append(w.Meters, packetMeter(meter, overheardPerSecond, overheardAtOnce))
	w.flow(at(tableOverheard, priorityExact, regOut.is(e.port)).do(PacketAnswer.metered(meter)).end())
}

func (h overheard) service(w *Wants, o Service) {
	if h.noMeter || !o.Overheard || o.VRF == SharedVRF {
		return
	}
	for _, b := range o.backends(FromPods) {
		if b.protocol != openflow.ProtoUDP {
			continue
		}
		f := familyOf(b.at.Addr())
		from := o.match(f.is(), f.src(inet.Host(b.at.Addr())), regDstTiers.has(JudgesOut, JudgesOut))
		w.flow(at(tableTrack, priorityAnswer, append(from, b.matches(openflow.TCPSrc, openflow.UDPSrc)...)...).
			do(openflow.Resubmit{Table: tableOverheard}).do(askTracker()).end())
	}
}
