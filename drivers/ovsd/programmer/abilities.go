package programmer

import (
	"context"
	"sync"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// sizes is whether the switch can compare the sizes of packets.
type sizes struct {
	can   bool
	known bool // the last query was answered
}

// detect finds out whether the switch can compare packet sizes. After an error the former result stays: flows of all networks
// depend on it.
func (s *sizes) detect(ctx context.Context, config Config) {
	can, err := config.ComparesSizes(ctx)
	s.known = err == nil
	if err != nil {
		config.Log.WithError(err).Warn("whether the datapath compares sizes is not known, and asked again")
		return
	}
	if !can && config.WantsSizes {
		config.Log.Warn("the datapath does not compare sizes: pods are not told of packets that are too big")
	}
	s.can = can
}

// detectAbilities finds out what a newly connected switch supports. Flows that need an unsupported feature are left out.
func (p *Programmer) detectAbilities(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	features, err := p.conn.sw.MeterFeatures(ctx)
	if err != nil {
		return err
	}
	p.sizes.detect(ctx, p.config)
	can := Abilities{MTU: p.carriedMTU()}
	if features.MaxMeters < pipeline.LastMeter {
		can.MetersEnd = features.MaxMeters + 1
	}
	if can.MetersEnd != p.can.MetersEnd {
		switch can.MetersEnd {
		case 0:
		case 1:
			p.log.Warn("the switch has no meters: endpoints are not limited, nor is what it answers for others")
		default:
			p.log.Warnf("the switch has meters up to number %d only: what needs one of those up to %d is not limited", features.MaxMeters, uint32(pipeline.LastMeter))
		}
	}
	p.setAbilities(can)
	return nil
}

// underlay is the network to other nodes. Its MTU may change, so it is read again from time to time.
type underlay struct {
	answers chan mtu // there is room for one
	asked   bool     // an answer is pending
}

// mtu is the result of reading the MTU of the underlay.
type mtu struct {
	bytes int
	err   error
}

// ask reads the MTU in a goroutine. While links are added and removed on the machine, the kernel delays such reads
// for a tenth of a second and more; changes do not wait for that.
func (u *underlay) ask(read func() (int, error), workers *sync.WaitGroup) {
	if u.asked {
		return
	}
	u.asked = true
	workers.Go(func() {
		bytes, err := read()
		u.answers <- mtu{bytes, err}
	})
}

// readMTU has the MTU of the underlay read, if the switch can use it; applyMTU gets the result.
func (p *Programmer) readMTU(ctx context.Context) {
	if !p.conn.isRead() {
		return
	}
	if !p.sizes.known {
		p.sizes.detect(ctx, p.config)
	}
	if !p.sizes.can {
		p.setAbilities(Abilities{p.can.MetersEnd, 0})
		return
	}
	p.underlay.ask(p.config.UnderlayMTU, &p.auditor.workers)
}

// applyMTU applies a result of readMTU.
func (p *Programmer) applyMTU(m mtu) {
	p.underlay.asked = false
	p.setAbilities(Abilities{p.can.MetersEnd, p.carried(m)})
}

// setAbilities sets the abilities of the switch and computes all flows again if they have changed.
func (p *Programmer) setAbilities(can Abilities) {
	if can == p.can && p.compiler != nil {
		return
	}
	p.can, p.fixed = can, p.config.Ports.FixedPorts()
	p.compileAll()
}

// carriedMTU returns the limit of packets to other nodes; 0: none.
func (p *Programmer) carriedMTU() int {
	if !p.sizes.can {
		return 0
	}
	bytes, err := p.config.UnderlayMTU()
	return p.carried(mtu{bytes, err})
}

// carried returns the MTU of the underlay by a result of readMTU. After an error it stays as it is.
func (p *Programmer) carried(m mtu) int {
	switch {
	case !p.sizes.can:
		return 0
	case m.err != nil:
		p.log.WithError(m.err).Warn("MTU of the underlay is not known")
		return p.can.MTU
	}
	return m.bytes
}
