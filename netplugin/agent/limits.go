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

// A group's record has the limits of its profile. That of a Kubernetes pod has the limits of its annotations: a
// profile, which replaces the group's, and bandwidths, which are added. Limits apply to each endpoint, not to
// all of the group together, and only the node of an endpoint needs them.

// bandwidth matches a rate of a profile: 10Mbps, 10 mb, 10M.
var bandwidth = regexp.MustCompile(`^([1-9][0-9]*) ?([kmgKMG])(?:b|bps)?$`)

// Units of profiles: a bandwidth counts in 1024, 1024² or 1024³
// bit/s, a burst in 1024 bytes. The switch counts in 1000 bits.
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
	return profileLimits(r.Bandwidth, r.DSCP, r.Burst)
}

// profileLimits returns the limits of a profile.
func profileLimits(bandwidth string, dscp, burst int) (pipeline.Limits, error) {
	rate, err := parseBandwidth(bandwidth)
	switch {
	case err != nil:
		return pipeline.Limits{}, err
	case dscp < 0 || dscp > pipeline.MaxDSCP:
		return pipeline.Limits{}, fmt.Errorf("DSCP %d is not in 0..%d", dscp, pipeline.MaxDSCP)
	case burst < 0:
		return pipeline.Limits{}, fmt.Errorf("burst %d is negative", burst)
	}
	return pipeline.Limits{Rate: rate, Burst: kbits(uint64(burst), bitsOfBurst), DSCP: uint8(dscp)}, nil
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

// kbits converts a number of units, size bits each, to kbit,
// rounding down. The result is capped at what the switch can count.
func kbits(number, size uint64) uint32 {
	high, low := bits.Mul64(number, size)
	if high > 0 || low/bitsOfKbit > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(low / bitsOfKbit)
}

// limitsOf returns the limits of an endpoint of this node: the
// profile of its pod or else its group, and its pod's bandwidths.
func (c *cache) limitsOf(e endpoint) pipeline.Limits {
	limits := c.limits[e.record.EndpointGroupKey]
	if pod, known := c.pods[e.pod]; known {
		if p := pod.Profile; p.Name != "" {
			if own, err := profileLimits(p.Bandwidth, p.DSCP, p.Burst); err == nil { // netmaster writes valid ones only
				limits = own
			}
		}
		limits.Sent, limits.Received = rateOf(pod.Egress), rateOf(pod.Ingress)
	}
	return limits
}

// rateOf converts bit/s to kbit/s; 0: no limit.
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

func (c *cache) removeLimits(id string) { c.setLimits(id, pipeline.Limits{}) }

// setLimits sets the limits of a group, by its key; the zero value means none.
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
