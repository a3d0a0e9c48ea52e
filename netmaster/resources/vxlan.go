package resources

import (
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// maxLocalTag is the highest local tag of a vxlan network. The first 4094 are VLANs; since the tag is held in a
// register of the switch, not in a header, it may be larger, so that only the range of VNIs limits the number of
// networks.
const maxLocalTag = vxlanBits - 1

// VXLANPool allocates VNIs, each with a tag that represents it inside a host. The record has VNIs relative to
// FreeVXLANsStart, the range's minimum less one.
type VXLANPool struct {
	Config *mastercfg.VXLANConfig
	Used   Used[uint] // VNIs
	Local  Used[uint] // tags inside a host
}

// DefineVXLANs returns the record of a new pool.
func DefineVXLANs(r TagRange) *mastercfg.VXLANConfig {
	return &mastercfg.VXLANConfig{ID: "global", VXLANs: filled(vxlanBits, 1, r.Max-r.Min+1),
		LocalVLANs: filled(vxlanBits, 1, maxLocalTag), FreeVXLANsStart: r.Min - 1}
}

// Allocate returns a free VNI, the requested one or for 0 the lowest, and the lowest free local tag.
func (p VXLANPool) Allocate(requested uint) (vni, localTag uint, err error) {
	if vni, err = p.pick(requested); err != nil {
		return 0, 0, err
	}
	localTag, ok := lowest(p.Config.LocalVLANs, 0, p.Local)
	if !ok {
		return 0, 0, fault.New(fault.Exhausted, "no local vlans available")
	}
	return vni, localTag, nil
}

func (p VXLANPool) pick(requested uint) (uint, error) {
	base := p.Config.FreeVXLANsStart
	if requested == 0 {
		vni, ok := lowest(p.Config.VXLANs, base, p.Used)
		if !ok {
			return 0, fault.New(fault.Exhausted, "no vxlans available")
		}
		return vni, nil
	}
	if requested <= base {
		return 0, fault.New(fault.Conflict, "requested vxlan is out of range").WithField("pktTag")
	}
	if free, ok := p.Used.NextFree(requested); !p.Config.VXLANs.Test(requested-base) || !ok || free != requested {
		return 0, fault.New(fault.Conflict, "requested vxlan not available").WithField("pktTag")
	}
	return requested, nil
}

// Resize changes the range; all VNIs in use must be inside the new one.
func (p *VXLANPool) Resize(r TagRange) error {
	if outside(p.Used, r) {
		return fault.New(fault.InUse, "cannot update the vxlan range due to existing vxlans %s", p.InUse()).WithField("vxlans")
	}
	p.Config = DefineVXLANs(r)
	return nil
}

// Count returns the number of VNIs in use.
func (p VXLANPool) Count() int { return count(p.Used) }

// InUse lists the VNIs in use as "1-3, 10".
func (p VXLANPool) InUse() string { return list(p.Used, tagName) }
