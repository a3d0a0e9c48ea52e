package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// overheard lets the agent know what names stand for. Rules of tiers may have domains as peers, and which
// addresses those have is only in the answers of name servers. So the agent gets a copy of what the providers of such a
// service send, by UDP, to endpoints that are judged for what they begin. The answer itself goes on as ever, whether the
// agent hears of it or not. Only providers are believed, by their own addresses and ports: the guard lets nobody else send from there.
type overheard struct{ noMeter bool }

// PacketAnswer is the class of answers of name servers.
const PacketAnswer PacketClass = 4

// What the agent may hear of all answers of a switch. Pods are not told apart: the action of a flow names one meter, and
// there is one flow for all that a provider answers. What is not heard counts once its pod asks again.
const (
	overheardPerSecond = 1000
	overheardAtOnce    = 1000
)

func (h overheard) base(w *Wants) {
	if !h.noMeter {
		w.Meters = append(w.Meters, PacketAnswer.Meter(overheardPerSecond, overheardAtOnce))
	}
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
		from := o.match(f.is(), f.src(openflow.Host(b.at.Addr())), regDstTiers.has(JudgesOut, JudgesOut))
		w.flow(at(tableTrack, priorityAnswer, append(from, b.matches(openflow.TCPSrc, openflow.UDPSrc)...)...).
			do(PacketAnswer.Action()).do(askTracker()...).end())
	}
}
