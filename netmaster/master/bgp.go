package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DeriveBgp writes the record of a BGP speaker.
func DeriveBgp(tx *ledger.Tx, b *contivmodel.Bgp) error {
	return ledger.Write(tx, mastercfg.BgpPrefix+b.Hostname, mastercfg.CfgBgpState{
		ID: b.Hostname, Hostname: b.Hostname, RouterIP: b.Routerip,
		As: b.As, NeighborAs: b.NeighborAs, Neighbor: b.Neighbor,
	})
}

// RemoveBgp deletes the record of a BGP speaker.
func RemoveBgp(tx *ledger.Tx, host string) { tx.Delete(mastercfg.BgpPrefix + host) }
