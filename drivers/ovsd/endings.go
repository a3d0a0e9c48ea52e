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

// endings are connections that are being ended.
type endings struct {
	messages []openflow.Message
	rounds   int              // that are left
	again    <-chan time.Time // the next round; nil: none is left
}

// endConnections ends those that were made by what is no longer in the switch.
// What they send would be translated as before for as long as they send.
func (p *programmer) endConnections(ctx context.Context, ends []openflow.Message) {
	if len(ends) > 0 {
		p.endings.messages, p.endings.rounds = append(p.endings.messages, ends...), endingRounds
		p.endAgain(ctx)
	}
}

// endAgain is one round.
func (p *programmer) endAgain(ctx context.Context) {
	if p.endings.rounds--; p.endings.rounds < 0 || p.sw == nil {
		p.endings = endings{}
		return
	}
	p.endings.again = time.After(endingPause)
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	if err := p.sw.Send(ctx, slices.Repeat(p.endings.messages, endingPasses)...); err != nil {
		p.log.WithError(err).Warn("connections to providers that have gone are not ended; they end when nothing is sent any more")
		p.endings = endings{}
	}
}
