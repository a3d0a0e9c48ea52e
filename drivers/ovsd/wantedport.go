package ovsd

import (
	"strconv"

	"github.com/contiv/netplugin/ofnet/ovsdb"
)

// wantedPort is the wanted contents of an endpoint port's rows. Columns and keys not named here are left
// unchanged; the OpenFlow number is requested when the port is made, and assigned by the switch.
type wantedPort struct {
	endpointID string
	link       string
	number     uint32
	mtu        int // bytes, of the endpoint
}

func (w wantedPort) portIDs() map[string]string { return map[string]string{idEndpoint: w.endpointID} }

func (w wantedPort) linkIDs() map[string]string {
	return map[string]string{idEndpoint: w.endpointID, idMTU: strconv.Itoa(w.mtu)}
}

// insert returns the operations that insert the port's rows. The named UUID of the port is "port".
func (w wantedPort) insert() []ovsdb.Operation {
	return []ovsdb.Operation{
		ovsdb.Insert("Interface", "interface", ovsdb.Row{
			"name": w.link, "ofport_request": w.number + endpointOffset, "mtu_request": hostMTU(w.mtu), "external_ids": w.linkIDs(),
		}),
		ovsdb.Insert("Port", "port", ovsdb.Row{"name": w.link, "interfaces": ovsdb.UUID("interface"), "external_ids": w.portIDs()}),
	}
}

// correct returns the operations that correct the rows of an existing port, none if they are right. A port that
// the switch could not open is retried, and so is one whose number it has not written, or in vain.
//
// linkMTU is the link's MTU, in bytes. A link with the endpoint's own MTU is unchanged: earlier versions made it, a
// change would make ovs-vswitchd read its routes again, and until that is done, tunnelled packets of all endpoints
// are lost.
func (w wantedPort) correct(have attached, linkMTU int) []ovsdb.Operation {
	port, link := ovsdb.Row{}, ovsdb.Row{}
	// A tag would move the pod into a VLAN that is not in the pipeline.
	if have.port.Tag != nil || len(have.port.Trunks) > 0 || have.port.VLANMode != nil {
		port["tag"], port["trunks"], port["vlan_mode"] = []int64{}, []int64{}, []string{}
	}
	if have.link.Type != "" && have.link.Type != DatapathSystem {
		link["type"] = ""
	}
	if have.link.MTURequest == nil && linkMTU != w.mtu {
		link["mtu_request"] = hostMTU(w.mtu)
	}
	ops := correctRow("Port", have.port.UUID, port, have.port.ExternalIDs, w.portIDs())
	ops = append(ops, correctRow("Interface", have.link.UUID, link, have.link.ExternalIDs, w.linkIDs())...)
	if len(ops) == 0 && (have.link.Error != nil || have.link.OFPort == nil) {
		ops = append(ops, ovsdb.Comment("tried again"))
	}
	return ops
}

func correctRow(table string, id ovsdb.UUID, row ovsdb.Row, haveIDs, wantIDs map[string]string) []ovsdb.Operation {
	here := ovsdb.Where("_uuid", id)
	ops := setKeys(table, here, "external_ids", haveIDs, wantIDs)
	if len(row) > 0 {
		ops = append(ops, ovsdb.Update(table, here, row))
	}
	return ops
}
