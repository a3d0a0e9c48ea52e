package master

import (
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// VLANs reads the VLAN pool.
func VLANs(r ledger.Reader) (resources.VLANPool, error) {
	config, oper, err := readPool[mastercfg.VLANConfig, mastercfg.VLANOper](r, mastercfg.VLANConfigKey, mastercfg.VLANOperKey)
	return resources.VLANPool{Config: config, Oper: oper}, err
}

// VXLANs reads the VNI pool.
func VXLANs(r ledger.Reader) (resources.VXLANPool, error) {
	config, oper, err := readPool[mastercfg.VXLANConfig, mastercfg.VXLANOper](r, mastercfg.VXLANConfigKey, mastercfg.VXLANOperKey)
	return resources.VXLANPool{Config: config, Oper: oper}, err
}

func readPool[C, O any](r ledger.Reader, configKey, operKey string) (*C, *O, error) {
	config, err := ledger.Read[C](r, configKey)
	if err != nil {
		return nil, nil, err
	}
	oper, err := ledger.Read[O](r, operKey)
	return &config, &oper, err
}

// PutVLANs stores the VLAN pool.
func PutVLANs(tx *ledger.Tx, p resources.VLANPool) error {
	if err := ledger.Write(tx, mastercfg.VLANConfigKey, p.Config); err != nil {
		return err
	}
	return ledger.Write(tx, mastercfg.VLANOperKey, p.Oper)
}

// PutVXLANs stores the VNI pool.
func PutVXLANs(tx *ledger.Tx, p resources.VXLANPool) error {
	if err := ledger.Write(tx, mastercfg.VXLANConfigKey, p.Config); err != nil {
		return err
	}
	return ledger.Write(tx, mastercfg.VXLANOperKey, p.Oper)
}

// takeTags takes the tags of a network: the VLAN, or for vxlan the local VLAN and the VNI.
func takeTags(tx *ledger.Tx, encap string, requested int) (pktTag, extPktTag int, err error) {
	if encap == "vlan" {
		pool, err := VLANs(tx)
		if err != nil {
			return 0, 0, err
		}
		vlan, err := pool.Allocate(uint(requested))
		if err != nil {
			return 0, 0, err
		}
		return int(vlan), 0, PutVLANs(tx, pool)
	}
	pool, err := VXLANs(tx)
	if err != nil {
		return 0, 0, err
	}
	vni, localVLAN, err := pool.Allocate(uint(requested))
	if err != nil {
		return 0, 0, err
	}
	return int(localVLAN), int(vni), PutVXLANs(tx, pool)
}

// returnTags is the inverse of takeTags; without a pool there is nothing to return to.
func returnTags(tx *ledger.Tx, encap string, pktTag, extPktTag int) error {
	if encap == "vlan" {
		pool, err := VLANs(tx)
		if err != nil {
			return ignoreNotFound(err)
		}
		pool.Free(uint(pktTag))
		return PutVLANs(tx, pool)
	}
	pool, err := VXLANs(tx)
	if err != nil {
		return ignoreNotFound(err)
	}
	pool.Free(uint(extPktTag), uint(pktTag))
	return PutVXLANs(tx, pool)
}

func ignoreNotFound(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
