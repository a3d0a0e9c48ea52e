package history

import (
	"fmt"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

// Sizes of the pools, from the specification.
const (
	vlanBits     = 4096
	vxlanBits    = 16384
	lastVLAN     = 4094
	lastLocalTag = 16383
	lastGroup    = 32767
)

// tagRange parses "10-17".
func tagRange(text string) (low, high int) {
	_, _ = fmt.Sscanf(text, "%d-%d", &low, &high) // validated by netmaster; an invalid one makes the comparison fail
	return low, high
}

// global computes the consequences of the global object, and the ranges of tags.
func (d *derivation) global() {
	g := one[contivmodel.Global](d.world, "global")
	if g == nil {
		return
	}
	low, high := tagRange(g.Vlans)
	vlans := bitsUpTo(vlanBits, low, min(high, lastVLAN))
	base, top := tagRange(g.Vxlans)
	base--
	vnis := bitsUpTo(vxlanBits, 1, top-base)
	local := bitsUpTo(vxlanBits, 1, lastLocalTag)
	d.put(root+"master/config/global", document{"id": "", "nw-infra-type": g.NetworkInfraType, "fwd-mode": g.FwdMode,
		"arp-mode": g.ArpMode, "pvt-subnet": g.PvtSubnet})
	d.put(statePrefix+"global/global", document{"id": "", "auto": document{"VLANs": g.Vlans, "VXLANs": g.Vxlans}})
	d.put(operPrefix+"global/global", document{"id": "global", "freeVXLANsStart": base})
	d.put(statePrefix+"auto-vlan/global", document{"id": "global", "vlans": vlans.text()})
	d.put(statePrefix+"auto-vxlan/global", document{"id": "global", "vxlans": vnis.text(), "LocalVLANs": local.text(), "FreeVXLANsStart": base})
}

// tags returns the tags of a network: VLAN or local VLAN, and VNI.
func (d *derivation) tags(n *contivmodel.Network) (tag, external int) {
	rec := d.world.record(networkPrefix + n.NetworkName + "." + n.TenantName)
	return number(rec["pktTag"]), number(rec["extPktTag"])
}

// groupID returns the id of a group, 0 if it does not exist.
func (d *derivation) groupID(tenant, group string) int {
	return number(d.world.record(groupPrefix + group + ":" + tenant)["endpointGroupId"])
}

func number(v any) int {
	f, _ := v.(float64)
	return int(f)
}

// orText returns the first text that is not empty.
func orText(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// service computes the providers of a service: the addresses of the running containers of its tenant that have all
// its labels. A container that had them before may drain for as long as it runs.
func (d *derivation) service(s *contivmodel.ServiceLB) {
	id := s.ServiceName + ":" + s.TenantName
	selectors := document{}
	for _, item := range s.Selectors {
		key, value, _ := strings.Cut(item, "=")
		selectors[key] = value
	}
	d.put(servicePrefix+id, document{"id": id, "servicename": s.ServiceName, "tenantname": s.TenantName, "subnet": s.NetworkName,
		"ports": s.Ports, "selectors": selectors, "ipaddress": d.world.record(servicePrefix + id)["ipaddress"]})
	for _, ep := range d.running(s.TenantName) {
		key := statePrefix + "provider/" + id + "/" + ep.IPAddress
		provider := document{"id": ep.IPAddress, "ServiceName": id, "Providers": []string{ep.IPAddress}}
		switch {
		case selects(selectors, ep.Labels):
			d.put(key, provider)
		case d.world.record(key)["Draining"] == true:
			provider["Draining"] = true
			d.put(key, provider)
		}
	}
}
