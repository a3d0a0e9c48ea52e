package pipeline

import (
	"github.com/contiv/netplugin/ofnet/openflow"
)

// Limits are what an endpoint may send and receive, and the mark on what it sends. The zero value limits and marks
// nothing.
type Limits struct {
	Rate     uint32 // kbit/s, 1000 bits each, in each direction; 0: unlimited
	Sent     uint32 // kbit/s of what it sends; the effective limit is the smaller of Rate and this that is not 0
	Received uint32 // likewise, of what it receives
	Burst    uint32 // kbit above the rate at once; 0: what a TCP connection needs
	DSCP     uint8  // 1..MaxDSCP: in every IP packet it sends; 0: as the endpoint set it
}

// sent returns the rate at which an endpoint may send; 0: unlimited.
func (l Limits) sent() uint32 { return least(l.Rate, l.Sent) }

// received returns the rate at which an endpoint may receive; 0: unlimited.
func (l Limits) received() uint32 { return least(l.Rate, l.Received) }

// least returns the smaller of two limits, of which 0 is none.
func least(a, b uint32) uint32 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// MaxDSCP is the largest mark.
const MaxDSCP = 63

// limit enforces an endpoint's rate in both directions, and marks what it sends.
//
// There is a meter for each direction. What the endpoint sends passes one in table CLASSIFY, before anything
// else: the excess costs the switch nothing more, and every packet counts, as it would at a slower port,
// whether it is delivered or not. What the endpoint receives passes the other in table OUTPUT, at the end: only
// packets that reach it count, from any sender, except the switch's own answers.
//
// The mark is set in table GUARD, which matches the IP family anyway. The tunnel port copies it to
// the outer header (tos=inherit).
//
// A new rate changes the meter only, which restarts with its whole burst; no flow is changed and no packet is lost.
type limit struct{}

// endpoint's meters drop what exceeds the rate.
func (limit) endpoint(w *Wants, e placed) {
	if !e.local() {
		return
	}
	for _, m := range []struct{ id, rate uint32 }{{e.sentMeter(), e.Limits.sent()}, {e.receivedMeter(), e.Limits.received()}} {
		if m.rate == 0 {
			continue
		}
		w.Meters = append(w.Meters, openflow.Meter{
			ID: m.id, Flags: openflow.MeterKbps | openflow.MeterBurst | openflow.MeterStatistics,
			Bands: []openflow.MeterBand{{Rate: m.rate, Burst: e.Limits.bucket(m.rate)}},
		})
	}
}

// The least that a meter's bucket must hold, in kbit. A packet that is larger than the bucket never passes, and with
// segmentation offload a packet has up to 64 KiB. The bucket is refilled every millisecond, or later if the switch
// is busy, and what exceeds its size is lost to the sender: it must hold what is refilled in a hundredth of a
// second.
const (
	largestPacket = 64 * 1024 * 8 / 1000
	refillShare   = 100
)

// The default burst in kbit: Open vSwitch's own default, or a quarter of a second. A TCP connection that loses
// all its packets in flight pauses for 200 ms (its smallest retransmission timeout); a bucket that is full
// before it continues wastes the rest.
const (
	leastBurst = 8000
	burstShare = 4
)

// bucket returns the size of the bucket of a rate's meter in kbit.
func (l Limits) bucket(rate uint32) uint32 {
	burst := l.Burst
	if burst == 0 {
		burst = max(leastBurst, rate/burstShare)
	}
	return max(burst, largestPacket+1, rate/refillShare)
}

// sentMeter returns the meter of what an endpoint sends; 0: none.
func (e placed) sentMeter() uint32 { return e.meter(meterSent, e.Limits.sent()) }

// receivedMeter returns the meter of what an endpoint receives; 0: none.
func (e placed) receivedMeter() uint32 { return e.meter(meterReceived, e.Limits.received()) }

func (e placed) meter(purpose, rate uint32) uint32 {
	if rate == 0 {
		return 0
	}
	return purpose + e.port
}

// marked marks an IP packet that an endpoint sends.
func (b flowBuilder) marked(l Limits) flowBuilder {
	if l.DSCP == 0 {
		return b
	}
	return b.do(set(openflow.IPDSCP(l.DSCP)))
}
