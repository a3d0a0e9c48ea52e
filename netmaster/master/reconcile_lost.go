package master

import (
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// A record that was lost had numbers that other records still contain, and that switches know: a network's tags are
// in the records of its groups, a group's id is in those of its endpoints and bindings. The new record gets the same
// ones, unless another network or group has got them meanwhile.

// restoreNetwork writes the record of a network that exists in the model.
func restoreNetwork(tx *ledger.Tx, n *contivmodel.Network) error {
	return deriveNetwork(tx, n, func(r ledger.Reader, encap string, requested int) (pktTag, extPktTag int, err error) {
		if pktTag, extPktTag, ok, err := tagsOfGroups(r, n); ok || err != nil {
			return pktTag, extPktTag, err
		}
		return freeTags(r, encap, requested)
	})
}

// tagsOfGroups returns the tags that groups of a network have from it. In a fabric they have VLANs of their own.
func tagsOfGroups(r ledger.Reader, n *contivmodel.Network) (pktTag, extPktTag int, ok bool, err error) {
	if inFabric, err := InFabric(r); inFabric || err != nil {
		return 0, 0, false, err
	}
	for _, key := range keysOf(r, link("network", n.ModelKey(), "EndpointGroups"), "endpointGroup") {
		g, err := groupRecord(r, key)
		if err != nil {
			return 0, 0, false, err
		}
		if g != nil && g.PktTagType == n.Encap && areOfNetwork(r, n, g.PktTag, g.ExtPktTag) {
			return g.PktTag, g.ExtPktTag, true, nil
		}
	}
	return 0, 0, false, nil
}

// areOfNetwork reports whether tags can be those of a network without a record: they are the requested ones, if
// any, and no other network has them.
func areOfNetwork(r ledger.Reader, n *contivmodel.Network, pktTag, extPktTag int) bool {
	if n.Encap == "vlan" {
		return (n.PktTag == 0 || n.PktTag == pktTag) && ofNoNetwork(r, vlanSet, pktTag)
	}
	return (n.PktTag == 0 || n.PktTag == extPktTag) && ofNoNetwork(r, vniSet, extPktTag) && ofNoNetwork(r, localSet, pktTag)
}

// ofNoNetwork reports whether the record of no network has a number.
func ofNoNetwork(r ledger.Reader, set string, number int) bool {
	free := number > 0
	found(r, numberTerm(set, number), func(key string) bool {
		free = free && !strings.HasPrefix(key, mastercfg.NetworkPrefix)
		return free
	})
	return free
}

// restoreGroup writes the record of a group that exists in the model, with the limits of its profile. Its range is
// its own, whatever endpoints have addresses there.
func restoreGroup(tx *ledger.Tx, g *contivmodel.EndpointGroup) error {
	network, err := GetNetwork(tx, mastercfg.NetworkID(g.TenantName, g.NetworkName))
	if err != nil {
		return err
	}
	rec := recordOf(g, &network)
	if g.IPPool != "" {
		first, last, err := resources.ParsePool(g.IPPool)
		if err != nil {
			return err
		}
		rec.IPPool = first.String() + "-" + last.String()
	}
	profile, err := Get[contivmodel.Netprofile](tx, g.Links.NetProfile.Key, nil)
	if err != nil {
		return err
	}
	ApplyNetProfile(rec, profile)
	if rec.EndpointGroupID, err = formerGroupID(tx, rec); err != nil {
		return err
	}
	if err := takeGroupVLAN(tx, rec); err != nil {
		return err
	}
	return renumber(tx, rec)
}

// formerGroupID returns the id that endpoints of a group, or its bindings, have, if it is free, and else another one.
// With the former id its rules are in force all the time.
func formerGroupID(r ledger.Reader, g *mastercfg.EndpointGroupState) (int, error) {
	var ids []int
	for _, ep := range readFound(r, memberTerm+g.ID) {
		ids = append(ids, ep.EndpointGroupID)
	}
	_ = each(r, bindingsOf(g), func(_ string, b mastercfg.EpgPolicy) error {
		ids = append(ids, b.EndpointGroupID)
		return nil
	})
	used := numbers{r, groupIDSet}
	for _, id := range ids {
		if free, ok := used.NextFree(uint(id)); id > 0 && ok && id <= pipeline.MaxGroup && int(free) == id {
			return id, nil
		}
	}
	return resources.LowestGroupID(used)
}

// bindingsOf returns the prefix of the bindings of policies to a group.
func bindingsOf(g *mastercfg.EndpointGroupState) string {
	return mastercfg.PolicyPrefix + g.TenantName + ":" + g.GroupName + ":"
}
