package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/utils/inet"
)

// overheard lets the agent know what names stand for. Rules of tiers may have domains as peers, and which
// addresses those have is only in the answers of name servers. So the agent gets a copy of what the providers of such a
// service send, by UDP, to endpoints that are judged for what they begin. The answer itself goes on as ever, whether the
// agent hears of it or not. Only providers are believed, by their own addresses and ports: the guard lets nobody else send from there.
//
//	TRACK      from such a provider: asks OVERHEARD, and goes on
//	OVERHEARD  to a port of an endpoint that is judged: a copy, by the meter of the port
//
// A pod that is answered more than its share has what is beyond heard when it asks again, and takes nothing from others.
type overheard struct{ noMeter bool }

// PacketAnswer is the class of answers of name servers.
const PacketAnswer PacketClass = 4

// What the agent may hear of the answers to one port. It is less at once than wait for the agent
// (drivers/ovsd/packets.go), and twenty ports that take all of theirs cost it some thousandths of its time.
const (
	overheardPerSecond = 50
	overheardAtOnce    = 50
)

// endpoint's flow copies an answer to it.
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
