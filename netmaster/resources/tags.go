package resources

import (
	"strconv"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// Limits of the tag ranges.
const (
	vlanBits     = 4096  // no pool has 0 and 4095
	vxlanBits    = 16384 // size of a pool; VNIs are stored relative to its start
	maxVXLANSpan = 16000
)

// TagRange is a configured range of tags, both ends included.
type TagRange struct{ Min, Max uint }

// ParseVLANRange parses "1-4094".
func ParseVLANRange(text string) (TagRange, error) {
	r, err := parseTagRange(text, "vlans")
	if err == nil && r.Max > vlanBits-1 {
		err = fault.New(fault.Invalid, "invalid range %s, vlan values exceed 4095 max allowed", text).WithField("vlans")
	}
	return r, err
}

// ParseVXLANRange parses "1-10000".
func ParseVXLANRange(text string) (TagRange, error) {
	r, err := parseTagRange(text, "vxlans")
	switch {
	case err != nil:
	case r.Max > pipeline.MaxVNI:
		err = fault.New(fault.Invalid, "invalid range %s, vxlan values exceed 65535 max allowed", text).WithField("vxlans")
	case r.Max-r.Min > maxVXLANSpan:
		err = fault.New(fault.Invalid, "does not allow vxlan range to exceed 16000 range %s", text).WithField("vxlans")
	}
	return r, err
}

func parseTagRange(text, field string) (TagRange, error) {
	minText, maxText, _ := strings.Cut(text, "-")
	low, err := strconv.ParseUint(minText, 10, 32)
	if err != nil {
		return TagRange{}, fault.New(fault.Invalid, "invalid range %s, want min-max", text).WithField(field)
	}
	high, err := strconv.ParseUint(maxText, 10, 32)
	if err != nil {
		return TagRange{}, fault.New(fault.Invalid, "invalid range %s, want min-max", text).WithField(field)
	}
	switch {
	case low > high:
		return TagRange{}, fault.New(fault.Invalid, "invalid range %s, min is greater than max", text).WithField(field)
	case low < 1:
		return TagRange{}, fault.New(fault.Invalid, "invalid range %s, values less than 1", text).WithField(field)
	}
	return TagRange{Min: uint(low), Max: uint(high)}, nil
}

// filled returns a bitmap of n bits in which [first, last] are set.
func filled(n, first, last uint) mastercfg.Bitmap {
	b := mastercfg.NewBitmap(n)
	for i := first; i <= last; i++ {
		b.Set(i)
	}
	return b
}

// VLANPool allocates VLANs of a configured range. They are used by networks and, in a fabric, by groups.
type VLANPool struct {
	Config *mastercfg.VLANConfig
	Used   Used[uint]
}

// DefineVLANs returns the record of a new pool.
func DefineVLANs(r TagRange) *mastercfg.VLANConfig {
	return &mastercfg.VLANConfig{ID: "global", VLANs: usableVLANs(r)}
}

func usableVLANs(r TagRange) mastercfg.Bitmap { return filled(vlanBits, r.Min, min(r.Max, vlanBits-2)) }

// Allocate returns a free VLAN: the requested one, or for 0 the lowest.
func (p VLANPool) Allocate(requested uint) (uint, error) {
	if requested != 0 {
		if free, ok := p.Used.NextFree(requested); !p.Config.VLANs.Test(requested) || !ok || free != requested {
			return 0, fault.New(fault.Conflict, "requested vlan not available - vlan:%d", requested).WithField("pktTag")
		}
		return requested, nil
	}
	vlan, ok := lowest(p.Config.VLANs, 0, p.Used)
	if !ok {
		return 0, fault.New(fault.Exhausted, "no vlans available")
	}
	return vlan, nil
}

// lowest returns the lowest free number of a pool, which is stored relative to a base.
func lowest(pool mastercfg.Bitmap, base uint, used Used[uint]) (uint, bool) {
	for index, ok := pool.NextSet(0); ok; index, ok = pool.NextSet(index) {
		free, any := used.NextFree(index + base)
		if !any {
			return 0, false
		}
		if index = free - base; pool.Test(index) {
			return free, true
		}
	}
	return 0, false
}

// Resize changes the range; all tags in use must be inside the new one.
func (p *VLANPool) Resize(r TagRange) error {
	if outside(p.Used, r) {
		return fault.New(fault.InUse, "cannot update the vlan range due to existing vlans %s", p.InUse()).WithField("vlans")
	}
	p.Config = DefineVLANs(r)
	return nil
}

// Count returns the number of VLANs in use.
func (p VLANPool) Count() int { return count(p.Used) }

// InUse lists the VLANs in use as "1-3, 10".
func (p VLANPool) InUse() string { return list(p.Used, tagName) }

// outside reports whether a tag in use is not in a range.
func outside(used Used[uint], r TagRange) (found bool) {
	inUse(used, func(tag uint) { found = found || tag < r.Min || tag > r.Max })
	return found
}

func tagName(tag uint) string { return strconv.FormatUint(uint64(tag), 10) }
