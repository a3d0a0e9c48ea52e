package ovsd

import (
	"context"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// askMeters learns which meters the switch can have. What needs others is not
// limited, and everything else works.
func (p *programmer) askMeters(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, switchTime)
	defer cancel()
	features, err := p.sw.MeterFeatures(ctx)
	if err != nil {
		return err
	}
	end := uint32(0)
	if features.MaxMeters < pipeline.LastMeter {
		end = features.MaxMeters + 1
	}
	if end == p.metersEnd {
		return nil
	}
	switch p.metersEnd = end; end {
	case 0:
	case 1:
		p.log.Warn("the switch has no meters: endpoints are not limited, nor is what it answers for others")
	default:
		p.log.Warnf("the switch has meters up to number %d only: what needs one of those up to %d is not limited", features.MaxMeters, uint32(pipeline.LastMeter))
	}
	p.compileAll()
	return nil
}
