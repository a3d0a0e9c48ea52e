package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// DeriveNetwork writes the record of a new network: its subnets and its tags.
func DeriveNetwork(tx *ledger.Tx, n *contivmodel.Network) error {
	return deriveNetwork(tx, n, func() (pktTag, extPktTag int, err error) { return freeTags(tx, n.Encap, n.PktTag) })
}

// rederiveNetwork is DeriveNetwork for a network whose record was lost: the records of its groups still have its tags.
func rederiveNetwork(tx *ledger.Tx, n *contivmodel.Network) error {
	return deriveNetwork(tx, n, func() (pktTag, extPktTag int, err error) {
		pktTag, extPktTag, err = formerTags(tx, n)
		if pktTag == 0 && err == nil {
			pktTag, extPktTag, err = freeTags(tx, n.Encap, n.PktTag)
		}
		return pktTag, extPktTag, err
	})
}

// deriveNetwork is DeriveNetwork with a function that returns the tags.
func deriveNetwork(tx *ledger.Tx, n *contivmodel.Network, tags func() (pktTag, extPktTag int, err error)) error {
	id := mastercfg.NetworkID(n.TenantName, n.NetworkName)
	rec := mastercfg.CfgNetworkState{
		ID: id, Tenant: n.TenantName, NetworkName: n.NetworkName, NwType: n.NwType,
		PktTagType: n.Encap, NetworkTag: n.CfgdTag,
	}
	if rec.NetworkTag == "" {
		rec.NetworkTag = id
	}
	if err := composedIDFree(tx, id); err != nil {
		return err
	}
	if err := resources.InitNetwork(&rec, n.Subnet, n.Gateway); err != nil {
		return err
	}
	if err := resources.InitNetworkIPv6(&rec, n.Ipv6Subnet, n.Ipv6Gateway); err != nil {
		return err
	}
	var err error
	if rec.PktTag, rec.ExtPktTag, err = tags(); err != nil {
		return err
	}
	return putNetwork(tx, &rec)
}

// composedIDFree returns an error for a network whose id another one has: names may contain dots, so that a.b
// of tenant c and a of tenant b.c have the same.
func composedIDFree(r ledger.Reader, id string) error {
	_, err := GetNetwork(r, id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fault.New(fault.Conflict, "network id %s is taken, by a network of another tenant: use another name", id) // its name is not for every user to know
}

// NetworkVacated returns an error for a new network while endpoints of a deleted one of its name
// still exist: an infra network is deleted before its endpoints, which hosts release one by one. The
// new network would assign their addresses again. With names the error has those of endpoints, which may be another
// tenant's (see composedIDFree).
func NetworkVacated(r ledger.Reader, id string, names bool) error {
	left := EndpointKeys(r, id)
	if len(left) == 0 {
		return nil
	}
	err := fault.New(fault.InUse, "network id %s is in use by %d endpoints of a deleted network", id, len(left))
	if !names {
		return err
	}
	return err.WithDetails(named(left)...)
}

// RemoveNetwork deletes a network's record, with the counters and holds of its addresses. Endpoints
// that remain are no providers any more.
func RemoveNetwork(tx *ledger.Tx, rec *mastercfg.CfgNetworkState) error {
	for _, ep := range readFound(tx, runningTerm+rec.ID) {
		if err := moveProvider(tx, &ep, nil); err != nil {
			return err
		}
	}
	oper, err := ledger.Read[mastercfg.GlobalOper](tx, mastercfg.GlobalOperKey)
	if err == nil && oper.DefaultNetwork == rec.NetworkName {
		oper.DefaultNetwork = ""
		if err := ledger.Write(tx, mastercfg.GlobalOperKey, oper); err != nil {
			return err
		}
	}
	tx.Range(mastercfg.HeldKey(rec.ID, ""), func(key string, _ []byte) bool {
		tx.Delete(key)
		return true
	})
	dropIPv4Counter(tx, rec.ID)
	tx.Delete(mastercfg.IPv6CounterPrefix + rec.ID)
	tx.Delete(mastercfg.NetworkPrefix + rec.ID)
	return nil
}

// GetNetwork reads a network's record.
func GetNetwork(r ledger.Reader, id string) (mastercfg.CfgNetworkState, error) {
	n, err := ledger.ReadShared[mastercfg.CfgNetworkState](r, mastercfg.NetworkPrefix+id)
	return *n, byName("network", id, err)
}

func putNetwork(tx *ledger.Tx, rec *mastercfg.CfgNetworkState) error {
	return ledger.Write(tx, mastercfg.NetworkPrefix+rec.ID, rec)
}
