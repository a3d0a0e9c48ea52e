package agent

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A group's record carries the limits of its profile, and that of a pod of Kubernetes what
// its annotations say. They are those of each endpoint of the group, not of all together,
// and concern the node that an endpoint is on: its others need not know.

// bandwidth is a rate as a profile says it: 10Mbps, 10 mb, 10M.
var bandwidth = regexp.MustCompile(`^([1-9][0-9]*) ?([kmgKMG])(?:b|bps)?$`)

// Units of profiles: a bandwidth counts in 1024, 1024² or 1024³ bit/s, a burst
// in 1024 bytes. Those of the switch are 1000 bits.
const (
	unit        = 1024
	bitsOfBurst = unit * 8
	bitsOfKbit  = 1000
)

func decodeLimits(value []byte) (pipeline.Limits, error) {
	var r mastercfg.EndpointGroupState
	if err := json.Unmarshal(value, &r); err != nil {
		return pipeline.Limits{}, err
	}
	rate, err := parseBandwidth(r.Bandwidth)
	switch {
	case err != nil:
		return pipeline.Limits{}, err
	case r.DSCP < 0 || r.DSCP > pipeline.MaxDSCP:
		return pipeline.Limits{}, fmt.Errorf("DSCP %d is not in 0..%d", r.DSCP, pipeline.MaxDSCP)
	case r.Burst < 0:
		return pipeline.Limits{}, fmt.Errorf("burst %d is negative", r.Burst)
	}
	return pipeline.Limits{Rate: rate, Burst: kbits(uint64(r.Burst), bitsOfBurst), DSCP: uint8(r.DSCP)}, nil
}

// parseBandwidth returns kbit/s; 0 for the empty text, which is no limit.
func parseBandwidth(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	parts := bandwidth.FindStringSubmatch(text)
	if parts == nil {
		return 0, fmt.Errorf("bandwidth %q is not a number and k, m or g", text)
	}
	number, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		number = math.MaxUint64 // more than any link has
	}
	size := map[string]uint64{"k": unit, "m": unit * unit, "g": unit * unit * unit}[strings.ToLower(parts[2])]
	return kbits(number, size), nil
}

// kbits converts a number of units of some bits, rounding down. What the switch
// cannot count is as much as it can.
func kbits(number, size uint64) uint32 {
	high, low := bits.Mul64(number, size)
	if high > 0 || low/bitsOfKbit > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(low / bitsOfKbit)
}

// limitsOf are those of an endpoint of this node: its group's, and its pod's own.
func (c *cache) limitsOf(e endpoint) pipeline.Limits {
	limits := c.limits[e.record.EndpointGroupKey]
	if pod, known := c.pods[e.pod]; known {
		limits.Sent, limits.Received = rateOf(pod.Egress), rateOf(pod.Ingress)
	}
	return limits
}

// rateOf is a number of bit/s in kbit/s; 0: no limit.
func rateOf(bits int64) uint32 {
	if bits <= 0 {
		return 0
	}
	return max(kbits(uint64(bits), 1), 1)
}

func (c *cache) putLimits(group string, value []byte, _ int64) error {
	limits, err := decodeLimits(value)
	if err != nil {
		return err
	}
	c.setLimits(group, limits)
	return nil
}

// setLimits enters the limits of a group, by its key; the zero value is none.
func (c *cache) setLimits(group string, limits pipeline.Limits) {
	if c.limits[group] == limits {
		return
	}
	if limits == (pipeline.Limits{}) {
		delete(c.limits, group)
	} else {
		c.limits[group] = limits
	}
	for id := range c.endpointsOn[c.host] {
		if c.endpoints[id].record.EndpointGroupKey == group {
			c.mark(pipeline.KindEndpoint, id)
		}
	}
}
