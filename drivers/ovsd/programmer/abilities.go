package programmer

import (
	"context"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// sizes is whether the switch can compare the sizes of packets.
type sizes struct {
	can   bool
	known bool // the last query was answered
}

// detectAbilities finds out what a newly connected switch supports. Flows that need an unsupported feature are left out.
func (p *Programmer) detectAbilities(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	features, err := p.sw.MeterFeatures(ctx)
	if err != nil {
		return err
	}
	p.detectSizes(ctx)
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

// underlay is the result of reading the MTU of the underlay.
type underlay struct {
	mtu int
	err error
}

// readMTU reads the MTU of the underlay, which may change, in a goroutine; applyMTU gets the result. While links are added and
// removed on the machine, the kernel delays such reads for a tenth of a second and more; changes do not wait for that.
func (p *Programmer) readMTU(ctx context.Context) {
	if p.sw == nil || !p.loaded {
		return
	}
	if !p.sizes.known {
		p.detectSizes(ctx)
	}
	switch {
	case !p.sizes.can:
		p.setAbilities(Abilities{p.can.MetersEnd, 0})
	case !p.asksMTU:
		p.asksMTU = true
		p.auditor.workers.Go(func() {
			mtu, err := p.config.UnderlayMTU()
			p.underlays <- underlay{mtu, err}
		})
	}
}

// applyMTU applies a result of readMTU.
func (p *Programmer) applyMTU(u underlay) {
	p.asksMTU = false
	p.setAbilities(Abilities{p.can.MetersEnd, p.carried(u)})
}

// detectSizes finds out whether the switch can compare packet sizes. After an error the former result stays: flows of all networks
// depend on it.
func (p *Programmer) detectSizes(ctx context.Context) {
	can, err := p.config.ComparesSizes(ctx)
	p.sizes.known = err == nil
	if err != nil {
		p.log.WithError(err).Warn("whether the datapath compares sizes is not known, and asked again")
		return
	}
	if !can && p.config.WantsSizes {
		p.log.Warn("the datapath does not compare sizes: pods are not told of packets that are too big")
	}
	p.sizes.can = can
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
	mtu, err := p.config.UnderlayMTU()
	return p.carried(underlay{mtu, err})
}

// carried returns the MTU of the underlay by a result of readMTU. After an error it stays as it is.
func (p *Programmer) carried(u underlay) int {
	switch {
	case !p.sizes.can:
		return 0
	case u.err != nil:
		p.log.WithError(u.err).Warn("MTU of the underlay is not known")
		return p.can.MTU
	}
	return u.mtu
}
