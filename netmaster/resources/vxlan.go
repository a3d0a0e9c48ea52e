package resources

import (
	"github.com/bits-and-blooms/bitset"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// maxLocalTag is the highest tag a vxlan network can have inside a host. The
// first 4094 are VLANs; the tag is a register there, no header, and goes on, so
// that the range of VNIs alone says how many networks there can be.
const maxLocalTag = vxlanBits - 1

// VXLANPool hands out VNIs, each with a tag that stands for it inside a host.
// VNIs are stored relative to FreeVXLANsStart, the range's minimum less one.
type VXLANPool struct {
	Config *mastercfg.VXLANConfig
	Oper   *mastercfg.VXLANOper
}

// DefineVXLANs fills the records of a new pool.
func DefineVXLANs(r TagRange) VXLANPool {
	return VXLANPool{
		&mastercfg.VXLANConfig{ID: "global", VXLANs: filled(vxlanBits, 1, r.Max-r.Min+1),
			LocalVLANs: localTags(), FreeVXLANsStart: r.Min - 1},
		&mastercfg.VXLANOper{ID: "global", FreeVXLANs: filled(vxlanBits, 1, r.Max-r.Min+1),
			FreeLocalVLANs: localTags()},
	}
}

func localTags() mastercfg.Bitmap { return filled(vxlanBits, 1, maxLocalTag) }

// Allocate takes a VNI, the requested one or the lowest free for 0, and the
// lowest free local tag.
func (p VXLANPool) Allocate(requested uint) (vni, localTag uint, err error) {
	index, err := p.pick(requested)
	if err != nil {
		return 0, 0, err
	}
	localTag, ok := p.Oper.FreeLocalVLANs.NextSet(0)
	if !ok {
		return 0, 0, fault.New(fault.Exhausted, "no local vlans available")
	}
	p.Oper.FreeVXLANs.Clear(index)
	p.Oper.FreeLocalVLANs.Clear(localTag)
	return index + p.Config.FreeVXLANsStart, localTag, nil
}

func (p VXLANPool) pick(requested uint) (index uint, err error) {
	if requested == 0 {
		index, ok := p.Oper.FreeVXLANs.NextSet(0)
		if !ok {
			return 0, fault.New(fault.Exhausted, "no vxlans available")
		}
		return index, nil
	}
	if requested <= p.Config.FreeVXLANsStart {
		return 0, fault.New(fault.Conflict, "requested vxlan is out of range").WithField("pktTag")
	}
	index = requested - p.Config.FreeVXLANsStart
	if !p.Oper.FreeVXLANs.Test(index) {
		return 0, fault.New(fault.Conflict, "requested vxlan not available").WithField("pktTag")
	}
	return index, nil
}

// Free gives a VNI and its local tag back; what is free stays free.
func (p VXLANPool) Free(vni, localTag uint) {
	if index := vni - p.Config.FreeVXLANsStart; vni > p.Config.FreeVXLANsStart && p.Config.VXLANs.Test(index) {
		p.Oper.FreeVXLANs.Set(index)
	}
	if p.Config.LocalVLANs.Test(localTag) {
		p.Oper.FreeLocalVLANs.Set(localTag)
	}
}

// Resize changes the range; what is in use must be inside the new one.
func (p VXLANPool) Resize(r TagRange) error {
	used := p.inUse()
	start := p.Config.FreeVXLANsStart
	if outside(used, start, r) {
		return fault.New(fault.InUse, "cannot update the vxlan range due to existing vxlans %s", p.InUse()).WithField("vxlans")
	}
	fresh := DefineVXLANs(r)
	for index, ok := used.NextSet(0); ok; index, ok = used.NextSet(index + 1) {
		fresh.Oper.FreeVXLANs.Clear(index + start - fresh.Config.FreeVXLANsStart)
	}
	fresh.Oper.FreeLocalVLANs = p.Oper.FreeLocalVLANs
	*p.Config, *p.Oper = *fresh.Config, *fresh.Oper
	return nil
}

func (p VXLANPool) inUse() *bitset.BitSet {
	return p.Config.VXLANs.Difference(&p.Oper.FreeVXLANs.BitSet)
}

// Count is the number of VNIs in use.
func (p VXLANPool) Count() int { return int(p.inUse().Count()) }

// InUse lists the VNIs in use as "1-3, 10".
func (p VXLANPool) InUse() string { return listTags(p.inUse(), p.Config.FreeVXLANsStart) }

// Rebuild makes exactly the given VNIs (with their local tags) the ones in
// use and tells whether that changed anything.
func (p VXLANPool) Rebuild(used map[uint]uint) bool {
	free, local := p.Config.VXLANs.Clone(), localTags()
	for vni, localTag := range used {
		if vni > p.Config.FreeVXLANsStart {
			free.Clear(vni - p.Config.FreeVXLANsStart)
		}
		local.Clear(localTag)
	}
	same := free.Equal(&p.Oper.FreeVXLANs.BitSet) && local.Equal(&p.Oper.FreeLocalVLANs.BitSet)
	p.Config.LocalVLANs = localTags()
	p.Oper.FreeVXLANs, p.Oper.FreeLocalVLANs = mastercfg.Bitmap{BitSet: *free}, local
	return !same
}
