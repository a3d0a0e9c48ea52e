package resources

import (
	"strconv"
	"strings"

	"github.com/bits-and-blooms/bitset"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// Limits of the tag ranges.
const (
	vlanBits     = 4096  // 0 and 4095 are in no pool
	vxlanBits    = 16384 // a pool's size; VNIs are stored relative to its start
	maxVNI       = 65535
	maxVXLANSpan = 16000
)

// TagRange is a configured range of tags, both ends included.
type TagRange struct{ Min, Max uint }

// ParseVLANRange reads "1-4094".
func ParseVLANRange(text string) (TagRange, error) {
	r, err := parseTagRange(text, "vlans")
	if err == nil && r.Max > vlanBits-1 {
		err = fault.New(fault.Invalid, "invalid range %s, vlan values exceed 4095 max allowed", text).WithField("vlans")
	}
	return r, err
}

// ParseVXLANRange reads "1-10000".
func ParseVXLANRange(text string) (TagRange, error) {
	r, err := parseTagRange(text, "vxlans")
	switch {
	case err != nil:
	case r.Max > maxVNI:
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

// filled is a map of n bits in which [first, last] are set.
func filled(n, first, last uint) mastercfg.Bitmap {
	b := mastercfg.NewBitmap(n)
	for i := first; i <= last; i++ {
		b.Set(i)
	}
	return b
}

// VLANPool hands out VLANs. A tag is in use when it is configured and not free.
type VLANPool struct {
	Config *mastercfg.VLANConfig
	Oper   *mastercfg.VLANOper
}

// DefineVLANs fills the records of a new pool.
func DefineVLANs(r TagRange) VLANPool {
	all := usableVLANs(r)
	free := mastercfg.Bitmap{BitSet: *all.Clone()}
	return VLANPool{&mastercfg.VLANConfig{ID: "global", VLANs: all}, &mastercfg.VLANOper{ID: "global", FreeVLANs: free}}
}

func usableVLANs(r TagRange) mastercfg.Bitmap { return filled(vlanBits, r.Min, min(r.Max, vlanBits-2)) }

// Allocate takes a VLAN: the requested one, or the lowest free for 0.
func (p VLANPool) Allocate(requested uint) (uint, error) {
	if requested != 0 {
		if !p.Oper.FreeVLANs.Test(requested) {
			return 0, fault.New(fault.Conflict, "requested vlan not available - vlan:%d", requested).WithField("pktTag")
		}
		p.Oper.FreeVLANs.Clear(requested)
		return requested, nil
	}
	vlan, ok := p.Oper.FreeVLANs.NextSet(0)
	if !ok {
		return 0, fault.New(fault.Exhausted, "no vlans available")
	}
	p.Oper.FreeVLANs.Clear(vlan)
	return vlan, nil
}

// Free gives a VLAN back; one that is free or not of the pool stays as it is.
func (p VLANPool) Free(vlan uint) {
	if p.Config.VLANs.Test(vlan) {
		p.Oper.FreeVLANs.Set(vlan)
	}
}

// Resize changes the range; what is in use must be inside the new one.
func (p VLANPool) Resize(r TagRange) error {
	inUse := p.inUse()
	if outside(inUse, 0, r) {
		return fault.New(fault.InUse, "cannot update the vlan range due to existing vlans %s", p.InUse()).WithField("vlans")
	}
	p.Config.VLANs = usableVLANs(r)
	p.Oper.FreeVLANs = mastercfg.Bitmap{BitSet: *p.Config.VLANs.Difference(inUse)}
	return nil
}

func (p VLANPool) inUse() *bitset.BitSet { return p.Config.VLANs.Difference(&p.Oper.FreeVLANs.BitSet) }

// Count is the number of VLANs in use.
func (p VLANPool) Count() int { return int(p.inUse().Count()) }

// InUse lists the VLANs in use as "1-3, 10".
func (p VLANPool) InUse() string { return listTags(p.inUse(), 0) }

// Rebuild makes exactly the given tags the ones in use and tells whether that changed anything.
func (p VLANPool) Rebuild(used map[uint]bool) bool {
	free := p.Config.VLANs.Clone()
	for vlan := range used {
		free.Clear(vlan)
	}
	same := free.Equal(&p.Oper.FreeVLANs.BitSet)
	p.Oper.FreeVLANs = mastercfg.Bitmap{BitSet: *free}
	return !same
}

// outside tells whether a used tag, stored relative to a base, is not in the range.
func outside(inUse *bitset.BitSet, base uint, r TagRange) bool {
	lowest, any := inUse.NextSet(0)
	if !any {
		return false
	}
	highest, _ := inUse.PreviousSet(inUse.Len() - 1)
	return lowest+base < r.Min || highest+base > r.Max
}

// listTags lists the set bits, each plus a base.
func listTags(set *bitset.BitSet, base uint) string {
	size := set.Len()
	orSize := func(n uint, ok bool) uint {
		if !ok {
			return size
		}
		return n
	}
	if size == 0 {
		return ""
	}
	return ranges(0, size-1, func(n uint) uint { return orSize(set.NextSet(n)) }, func(n uint) uint { return orSize(set.NextClear(n)) },
		func(n uint) string { return strconv.FormatUint(uint64(n+base), 10) })
}
