package ovsd

import (
	"context"
	"slices"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
)

// Connections are ended again and again for a while, for two reasons:
//
//   - A packet that comes before the datapath knows of a changed group makes its
//     connection anew, as it was. ovs-vswitchd looks at all flows of the datapath
//     at least twice a second.
//   - Open vSwitch walks through its table of connections while it deletes from it,
//     and skips others; half of them have been seen to be left.
const (
	endingRounds = 5
	endingPasses = 3 // in a round
	endingPause  = time.Second
)

// endings are the connections that are being ended, each with its rounds to come.
type endings struct {
	rounds map[openflow.CTFlush]int
	again  <-chan time.Time // the next round; nil: none is to come
}

// change begins to end connections, and no longer ends those of what is there
// again. It returns those of the first round.
func (e *endings) change(ends, backs []openflow.CTFlush) (first []openflow.CTFlush) {
	for _, c := range backs {
		delete(e.rounds, c)
	}
	for _, c := range ends {
		if slices.Contains(backs, c) {
			continue // of another port of the same service
		}
		if e.rounds == nil {
			e.rounds = map[openflow.CTFlush]int{}
		}
		e.rounds[c] = endingRounds - 1
		first = append(first, c)
	}
	return first
}

// round returns the connections of one more round.
func (e *endings) round() (list []openflow.CTFlush) {
	for c, left := range e.rounds {
		list = append(list, c)
		if e.rounds[c]--; left == 1 {
			delete(e.rounds, c)
		}
	}
	return list
}

// endConnections ends those that were made by what is no longer in the switch.
// What they send would be translated as before for as long as they send.
func (p *programmer) endConnections(ctx context.Context) {
	p.flush(ctx, p.endings.change(p.ledger.takeEnds()))
}

// endAgain is one more round.
func (p *programmer) endAgain(ctx context.Context) {
	p.endings.again = nil
	p.flush(ctx, p.endings.round())
}

// flush ends connections and sees to it that there is another round if one is due.
func (p *programmer) flush(ctx context.Context, list []openflow.CTFlush) {
	if p.sw == nil {
		p.endings = endings{}
		return
	}
	if len(p.endings.rounds) > 0 && p.endings.again == nil {
		p.endings.again = time.After(endingPause)
	}
	if len(list) == 0 {
		return
	}
	var messages []openflow.Message
	for range endingPasses {
		for _, c := range list {
			messages = append(messages, c)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	if err := p.sw.Send(ctx, messages...); err != nil {
		p.log.WithError(err).Warn("connections to providers that have gone are not ended; they end when nothing is sent any more")
		p.endings = endings{}
	}
}
