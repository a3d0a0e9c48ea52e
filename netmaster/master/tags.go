package master

import (
	"math"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// VLANs returns the VLAN pool.
func VLANs(r ledger.Reader) (resources.VLANPool, error) {
	config, err := ledger.ReadShared[mastercfg.VLANConfig](r, mastercfg.VLANConfigKey)
	return resources.VLANPool{Config: config, Used: numbers{r, vlanSet}}, err
}

// VXLANs returns the VNI pool.
func VXLANs(r ledger.Reader) (resources.VXLANPool, error) {
	config, err := ledger.ReadShared[mastercfg.VXLANConfig](r, mastercfg.VXLANConfigKey)
	return resources.VXLANPool{Config: config, Used: numbers{r, vniSet}, Local: numbers{r, localSet}}, err
}

// PutVLANs stores the range of the VLAN pool.
func PutVLANs(tx *ledger.Tx, config *mastercfg.VLANConfig) error {
	return ledger.Write(tx, mastercfg.VLANConfigKey, config)
}

// PutVXLANs stores the range of the VNI pool.
func PutVXLANs(tx *ledger.Tx, config *mastercfg.VXLANConfig) error {
	return ledger.Write(tx, mastercfg.VXLANConfigKey, config)
}

// freeTags finds the tags of a new network: the VLAN, or for vxlan the local
// VLAN and the VNI.
func freeTags(r ledger.Reader, encap string, requested int) (pktTag, extPktTag int, err error) {
	if encap == "vlan" {
		pool, err := VLANs(r)
		if err != nil {
			return 0, 0, err
		}
		vlan, err := pool.Allocate(uint(requested))
		return int(vlan), 0, err
	}
	pool, err := VXLANs(r)
	if err != nil {
		return 0, 0, err
	}
	vni, localVLAN, err := pool.Allocate(uint(requested))
	return int(localVLAN), int(vni), err
}

// formerTags returns the tags that a group of a network still has from the network's lost record, unless another
// network has got one of them since; 0: none. In a fabric groups have tags of their own.
func formerTags(r ledger.Reader, n *contivmodel.Network) (pktTag, extPktTag int, err error) {
	if inFabric, err := InFabric(r); inFabric || err != nil {
		return 0, 0, err
	}
	for _, key := range keysOf(r, link("network", n.TenantName+":"+n.NetworkName, "EndpointGroups"), "endpointGroup") {
		g, err := groupRecord(r, key)
		if err := ignoreCorrupt(err); err != nil {
			return 0, 0, err
		}
		if g == nil || g.PktTag == 0 || g.PktTagType != n.Encap {
			continue
		}
		if n.Encap == "vlan" {
			if _, other := NetworkWithTag(r, n.Encap, g.PktTag); other == "" {
				return g.PktTag, 0, nil
			}
		} else if oldest(r, numberTerm(vniSet, g.ExtPktTag)) == "" && oldest(r, numberTerm(localSet, g.PktTag)) == "" {
			return g.PktTag, g.ExtPktTag, nil
		}
	}
	return 0, 0, nil
}

// NetworkWithTag returns the network that has a tag of an encapsulation; empty if none has.
func NetworkWithTag(r ledger.Reader, encap string, tag int) (tenant, name string) {
	if tag < 0 || tag > math.MaxUint16 {
		return "", ""
	}
	set := vniSet
	if encap == "vlan" {
		set = vlanSet
	}
	term := numberTerm(set, tag)
	r.Search(term, "", func(_, key string) bool {
		if id, is := strings.CutPrefix(key, mastercfg.NetworkPrefix); is { // groups have the VLAN of their network
			if n, err := GetNetwork(r, id); err == nil {
				tenant, name = n.Tenant, n.NetworkName
			}
		}
		return name == ""
	})
	return tenant, name
}

func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
