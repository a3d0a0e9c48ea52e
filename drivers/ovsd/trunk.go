package ovsd

import (
	"maps"
	"strconv"

	"github.com/contiv/netplugin/drivers/ovsd/programmer"
	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// trunk is the port of a bridge to all other nodes: the tunnel, or the patch to the
// bridge of the uplinks. It asks for the lowest number, so that endpoint ports have
// the rest.
type trunk struct {
	name    string // of port and interface
	kind    string // of the interface
	options map[string]string
}

const (
	tunnelName         = "vxif0"
	trunkNumber uint32 = 1
	// In external_ids, where an endpoint's port names its endpoint, of a link that was
	// a port of our bridge before uplinks had one of their own.
	idUplink = "uplinkPort"
)

func (c Config) trunk() trunk {
	if len(c.Uplinks) > 0 {
		return trunk{name: uplink.PatchPort, kind: "patch", options: map[string]string{"peer": uplink.PeerPort}}
	}
	return trunk{name: tunnelName, kind: "vxlan", options: map[string]string{
		"local_ip":  c.VTEP.String(),
		"remote_ip": "flow",
		"key":       "flow",
		"dst_port":  strconv.Itoa(int(c.VXLANPort)),
		"tos":       "inherit",
		// A tunnelled packet that is too big for a link further away in the underlay is
		// fragmented there: nobody could tell the pod. Of the first link it is told (toobig.go
		// of the pipeline).
		"df_default": "false",
	}}
}

// encap is what networks of the bridge have.
func (c Config) encap() pipeline.Encap {
	if len(c.Uplinks) > 0 {
		return pipeline.VLAN
	}
	return pipeline.VXLAN
}

// serves says why networks of an encapsulation cannot be on the bridge.
func (c Config) serves(e pipeline.Encap) error {
	if e == c.encap() {
		return nil
	}
	return fault.New(fault.Unsupported, "bridge %s with %s has no networks of encapsulation %s", c.Bridge, c.trunk(), e)
}

// what it is, for people.
func (t trunk) String() string { return t.kind + " port " + t.name }

// insert makes the rows. The port's row is named "trunk".
func (t trunk) insert() []ovsdb.Operation {
	return []ovsdb.Operation{
		ovsdb.Insert("Interface", "trunk_interface", ovsdb.Row{
			"name": t.name, "type": t.kind, "options": t.options, "ofport_request": trunkNumber,
		}),
		ovsdb.Insert("Port", "trunk", ovsdb.Row{"name": t.name, "interfaces": ovsdb.UUID("trunk_interface")}),
	}
}

// isRight tells whether the interface is what it should be.
func (t trunk) isRight(link interfaceRow) bool {
	return link.Type == t.kind && maps.Equal(link.Options, t.options)
}

// formerUplinks are links that an earlier version made ports of our bridge.
func formerUplinks(db *database, bridge bridgeRow) (ports []ovsdb.UUID) {
	for _, id := range bridge.Ports {
		if port, ok := db.ports.Get(id); ok && port.ExternalIDs[idEndpoint] == idUplink {
			ports = append(ports, id)
		}
	}
	return ports
}

// trunkFailure says why the switch cannot open a trunk that is there.
func (d *Driver) trunkFailure() error {
	if t, ok := d.db.trunk(); ok && t.link.Error != nil {
		return fault.New(fault.Unavailable, "%s: %s", d.config.trunk(), *t.link.Error)
	}
	return nil
}

// endpointMTU is what fits through the trunk, for those who send without a tag:
// Ethernet has room for one beside the MTU.
func (d *Driver) endpointMTU() (int, error) {
	if len(d.config.Uplinks) == 0 {
		return d.links.tunnelMTU(d.config.VTEP)
	}
	smallest, known := maxLinkMTU, false
	for _, name := range d.config.Uplinks {
		mtu, ok, err := d.links.mtu(name)
		if err != nil {
			return 0, err
		}
		if ok {
			smallest, known = min(mtu, smallest), true
		}
	}
	if !known {
		return defaultMTU, nil
	}
	return smallest, nil
}

// givenMTU is the MTU that an endpoint was told to use, as far as it can be known. When
// the rows are lost, it is what a new endpoint would be told.
func (d *Driver) givenMTU(have attached, hostEnd int) (int, error) {
	switch known := have.link.mtu(); {
	case known != 0:
		return known, nil
	case hostEnd != hostMTU(hostEnd): // an earlier version has made it
		return hostEnd, nil
	}
	return d.endpointMTU()
}

// pipelineConfig is what the pipeline is told of the bridge.
func (c Config) pipelineConfig(at programmer.FixedPorts, can programmer.Abilities) pipeline.Config {
	if len(c.Uplinks) > 0 {
		return pipeline.Config{UplinkPort: at.Trunk, NamesPort: at.Names, MetersEnd: can.MetersEnd, MTU: can.MTU}
	}
	return pipeline.Config{TunnelPort: at.Trunk, LocalVTEP: c.VTEP, NamesPort: at.Names, MetersEnd: can.MetersEnd, MTU: can.MTU}
}

// FixedPorts are the numbers of trunk and name server, for the programmer.
func (db *database) FixedPorts() programmer.FixedPorts {
	return programmer.FixedPorts{Trunk: db.trunkNumber(), Names: db.namesNumber()}
}

// trunk finds the trunk among the ports of our bridge.
func (db *database) trunk() (attached, bool) { return db.attachedAs(db.trunkName) }

// trunkNumber is the OpenFlow number of the trunk; until the switch has given it
// one, the number it asks for.
func (db *database) trunkNumber() uint32 {
	if t, ok := db.trunk(); ok && t.link.number() != 0 {
		return t.link.number()
	}
	return trunkNumber
}

// seen tells whether ovs-vswitchd has seen our bridge, and has an opinion of its
// trunk or, without one, of its local port.
func (db *database) seen() bool {
	port, ok := db.trunk()
	if !ok {
		port, ok = db.attachedAs(db.bridge)
	}
	return ok && (port.link.OFPort != nil || port.link.Error != nil)
}
