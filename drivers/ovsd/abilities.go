package ovsd

import (
	"context"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// abilities are what switch and underlay can do, which is part of many flows.
type abilities struct {
	metersEnd uint32 // as in pipeline.Config
	mtu       int    // likewise
}

// askAbilities learns them from a switch about which nothing is known. What it cannot do
// is left out, and everything else works.
func (p *programmer) askAbilities(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	features, err := p.sw.MeterFeatures(ctx)
	if err != nil {
		return err
	}
	p.sizes = p.comparesSizes(ctx)
	can := abilities{mtu: p.carriedMTU()}
	if features.MaxMeters < pipeline.LastMeter {
		can.metersEnd = features.MaxMeters + 1
	}
	if can.metersEnd != p.can.metersEnd {
		switch can.metersEnd {
		case 0:
		case 1:
			p.log.Warn("the switch has no meters: endpoints are not limited, nor is what it answers for others")
		default:
			p.log.Warnf("the switch has meters up to number %d only: what needs one of those up to %d is not limited", features.MaxMeters, uint32(pipeline.LastMeter))
		}
	}
	p.become(can)
	return nil
}

// lookAtMTU takes over the MTU of the underlay, which may change under way.
func (p *programmer) lookAtMTU() {
	if p.sw != nil && p.loaded {
		p.become(abilities{p.can.metersEnd, p.carriedMTU()})
	}
}

// become computes everything for other abilities than before, or for the first time.
func (p *programmer) become(can abilities) {
	if can == p.can && p.compiler != nil {
		return
	}
	p.can, p.fixed = can, p.ports.fixedPorts()
	p.compileAll()
}

// carriedMTU is what packets to other nodes are held to; 0: nothing.
func (p *programmer) carriedMTU() int {
	if !p.sizes {
		return 0
	}
	mtu, err := p.underlayMTU()
	if err != nil {
		p.log.WithError(err).Warn("MTU of the underlay is not known")
		return p.can.mtu
	}
	return mtu
}

// comparesSizes tells whether the datapath can compare sizes.
func (d *Driver) comparesSizes(ctx context.Context) bool {
	can, err := d.config.comparesSizes(ctx)
	if err != nil || !can {
		d.log.WithError(err).Warn("the datapath is not known to compare sizes: pods are not told of packets that are too big")
	}
	return can && err == nil
}
