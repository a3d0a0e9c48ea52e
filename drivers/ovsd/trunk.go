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

// trunk is the port of a bridge to all other nodes: the tunnel, or the patch port to the
// bridge of the uplinks. It requests the lowest OpenFlow port number; endpoint ports have
// the others.
type trunk struct {
	name    string // of port and interface
	kind    string // of the interface
	options map[string]string
}

const (
	tunnelName         = "vxif0"
	trunkNumber uint32 = 1
	// Value of external_ids:endpoint-id of an uplink that an earlier version made
	// a port of our bridge.
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
		// A tunnelled packet that is too big for a later link of the underlay is
		// fragmented there: its ICMP error could not be forwarded to the pod. For the first link, the pod
		// gets ICMP errors (pipeline/toobig.go).
		"df_default": "false",
	}}
}

// encap returns the encapsulation of the bridge's networks.
func (c Config) encap() pipeline.Encap {
	if len(c.Uplinks) > 0 {
		return pipeline.VLAN
	}
	return pipeline.VXLAN
}

// serves returns an error if the bridge does not carry networks of an encapsulation.
func (c Config) serves(e pipeline.Encap) error {
	if e == c.encap() {
		return nil
	}
	return fault.New(fault.Unsupported, "bridge %s with %s has no networks of encapsulation %s", c.Bridge, c.trunk(), e)
}

// String describes the trunk for errors.
func (t trunk) String() string { return t.kind + " port " + t.name }

// insert returns the operations that insert the rows. The named UUID of the port is "trunk".
func (t trunk) insert() []ovsdb.Operation {
	return []ovsdb.Operation{
		ovsdb.Insert("Interface", "trunk_interface", ovsdb.Row{
			"name": t.name, "type": t.kind, "options": t.options, "ofport_request": trunkNumber,
		}),
		ovsdb.Insert("Port", "trunk", ovsdb.Row{"name": t.name, "interfaces": ovsdb.UUID("trunk_interface")}),
	}
}

// isRight reports whether the interface has the type and options of the trunk.
func (t trunk) isRight(link interfaceRow) bool {
	return link.Type == t.kind && maps.Equal(link.Options, t.options)
}

// formerUplinks returns the uplinks that an earlier version made ports of our bridge.
func formerUplinks(db *database, bridge bridgeRow) (ports []ovsdb.UUID) {
	for _, id := range bridge.Ports {
		if port, ok := db.ports.Get(id); ok && port.ExternalIDs[idEndpoint] == idUplink {
			ports = append(ports, id)
		}
	}
	return ports
}

// trunkFailure returns why there is no trunk, or the switch's error about its interface.
func (d *Driver) trunkFailure() error {
	t, ok := d.db.trunk()
	switch {
	case !ok:
		return d.db.taken(d.db.trunkName)
	case t.link.Error != nil:
		return fault.New(fault.Unavailable, "%s: %s", d.config.trunk(), *t.link.Error)
	}
	return nil
}

// endpointMTU returns the largest MTU of endpoints whose packets fit through the trunk. On uplinks it need not
// leave room for the VLAN tag: Ethernet has that outside the MTU.
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

// givenMTU returns the MTU that an existing endpoint uses. If that is unknown because the rows are lost, it is
// the one that a new endpoint would get.
func (d *Driver) givenMTU(have attached, hostEnd int) (int, error) {
	switch known := have.link.mtu(); {
	case known != 0:
		return known, nil
	case hostEnd != hostMTU(hostEnd): // made by an earlier version
		return hostEnd, nil
	}
	return d.endpointMTU()
}

// pipelineConfig returns the configuration of the bridge's pipeline.
func (c Config) pipelineConfig(at programmer.FixedPorts, can programmer.Abilities) pipeline.Config {
	if len(c.Uplinks) > 0 {
		return pipeline.Config{UplinkPort: at.Trunk, NamesPort: at.Names, MetersEnd: can.MetersEnd, MTU: can.MTU}
	}
	return pipeline.Config{TunnelPort: at.Trunk, LocalVTEP: c.VTEP, NamesPort: at.Names, MetersEnd: can.MetersEnd, MTU: can.MTU}
}

// FixedPorts returns the OpenFlow numbers of trunk and name server, for the programmer.
func (db *database) FixedPorts() programmer.FixedPorts {
	return programmer.FixedPorts{Trunk: db.trunkNumber(), Names: db.namesNumber()}
}

// trunk finds the trunk among the ports of our bridge.
func (db *database) trunk() (attached, bool) { return db.attachedAs(db.trunkName) }

// trunkNumber returns the OpenFlow number of the trunk; until the switch has assigned one, the number that it requests.
func (db *database) trunkNumber() uint32 {
	if t, ok := db.trunk(); ok && t.link.number() != 0 {
		return t.link.number()
	}
	return trunkNumber
}

// seen reports whether ovs-vswitchd has processed our bridge: it has written a number or an error for its trunk
// or, without one, for its local port.
func (db *database) seen() bool {
	port, ok := db.trunk()
	if !ok {
		port, ok = db.attachedAs(db.bridge)
	}
	return ok && (port.link.OFPort != nil || port.link.Error != nil)
}
