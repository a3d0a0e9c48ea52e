package master

import (
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// defaultGroup is the group of endpoints that name none, where a fabric needs one.
const defaultGroup = "default-group"

// InFabric reports whether an ACI fabric does the forwarding: it enforces policies itself, and
// distinguishes groups by their VLANs.
func InFabric(r ledger.Reader) (bool, error) {
	config, err := ledger.ReadShared[mastercfg.GlobConfig](r, mastercfg.GlobalConfigKey)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return config.NwInfraType == "aci", err
}

// takeGroupVLAN assigns a new group the VLAN by which a fabric identifies it.
func takeGroupVLAN(r ledger.Reader, rec *mastercfg.EndpointGroupState) error {
	inFabric, err := InFabric(r)
	if !inFabric || err != nil {
		return err
	}
	if rec.PktTagType != "vlan" {
		return fault.New(fault.Mode, "network type must be VLAN for ACI mode").WithField("networkName")
	}
	rec.PktTag, _, err = freeTags(r, "vlan", 0)
	return err
}
