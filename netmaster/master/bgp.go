package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// BgpRecord is the record of a BGP speaker.
func BgpRecord(b *contivmodel.Bgp) mastercfg.CfgBgpState {
	return mastercfg.CfgBgpState{
		ID: b.Hostname, Hostname: b.Hostname, RouterIP: b.Routerip, RouterIPv6: b.Ipv6Routerip,
		As: b.As, NeighborAs: b.NeighborAs, Neighbor: b.Neighbor, Neighbors: b.Neighbors, Password: b.Password, HoldTime: b.HoldTime,
	}
}

// DeriveBgp writes the record of a BGP speaker.
func DeriveBgp(tx *ledger.Tx, b *contivmodel.Bgp) error {
	return ledger.Write(tx, mastercfg.BgpPrefix+b.Hostname, BgpRecord(b))
}

// RemoveBgp deletes the record of a BGP speaker.
func RemoveBgp(tx *ledger.Tx, host string) { tx.Delete(mastercfg.BgpPrefix + host) }
