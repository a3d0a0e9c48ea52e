package master

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// repairBgp writes the missing record of a BGP speaker of the model, and deletes a record without a speaker.
func repairBgp(p *pass, key string) (findings, error) {
	if host, ok := modelBelow(key, "Bgp"); ok {
		b, ok := readSound[contivmodel.Bgp](p, key)
		if !ok {
			return nil, nil
		}
		changed, err := changes(p, func() error { return DeriveBgp(p.Tx, &b) }, mastercfg.BgpPrefix+b.Hostname)
		if !changed {
			return nil, err
		}
		return findings{"record of bgp of host " + host + " made anew"}, nil
	}
	host := key[len(mastercfg.BgpPrefix):]
	if Exists(p, "Bgp", host) {
		return nil, nil
	}
	RemoveBgp(p.Tx, host)
	return findings{"record of bgp of host " + host + ", which is gone, deleted"}, nil
}
