package ovsd

import (
	"maps"
	"net"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// trunk is the port of a bridge to all other nodes: the tunnel, or the uplink.
// It asks for the lowest number, so that endpoint ports have the rest.
type trunk struct {
	name    string // of port and interface
	kind    string // of the interface: vxlan; empty: a link of the host
	options map[string]string
}

const (
	tunnelName         = "vxif0"
	idUplink           = "uplinkPort" // in external_ids, where an endpoint's port names its endpoint
	trunkNumber uint32 = 1
)

func (c Config) trunk() trunk {
	if c.Uplink != "" {
		return trunk{name: c.Uplink}
	}
	return trunk{name: tunnelName, kind: "vxlan", options: map[string]string{
		"local_ip":  c.VTEP.String(),
		"remote_ip": "flow",
		"key":       "flow",
		"dst_port":  strconv.Itoa(int(c.VXLANPort)),
		"tos":       "inherit",
		// A tunnelled packet that is too big for a link of the underlay is
		// fragmented there: pods could not be told, and would lose it silently.
		"df_default": "false",
	}}
}

// encap is what networks of the bridge have.
func (c Config) encap() pipeline.Encap {
	if c.Uplink != "" {
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
func (t trunk) String() string {
	if t.kind == "" {
		return "uplink " + t.name
	}
	return "tunnel port " + t.name
}

// insert makes the rows. The port's row is named "trunk".
func (t trunk) insert() []ovsdb.Operation {
	port := ovsdb.Row{"name": t.name, "interfaces": ovsdb.UUID("trunk_interface")}
	if t.kind == "" {
		port["external_ids"] = map[string]string{idEndpoint: idUplink}
	}
	return []ovsdb.Operation{
		ovsdb.Insert("Interface", "trunk_interface", ovsdb.Row{
			"name": t.name, "type": t.kind, "options": t.options, "ofport_request": trunkNumber,
		}),
		ovsdb.Insert("Port", "trunk", port),
	}
}

// isRight tells whether the interface is what it should be.
func (t trunk) isRight(link interfaceRow) bool {
	kind := link.Type
	if kind == DatapathSystem {
		kind = "" // the same to Open vSwitch
	}
	return kind == t.kind && maps.Equal(link.Options, t.options)
}

// formerUplinks are links of our bridge that an earlier run was given as uplink.
func (t trunk) formerUplinks(db *database, bridge bridgeRow) (ports []ovsdb.UUID) {
	for _, id := range bridge.Ports {
		if port, ok := db.ports.Get(id); ok && port.ExternalIDs[idEndpoint] == idUplink && port.Name != t.name {
			ports = append(ports, id)
		}
	}
	return ports
}

// prepareTrunk tells whether the bridge has to do without its trunk at the moment,
// and what is wrong with that.
//
// An uplink belongs to the bridge alone: traffic of the host itself would end
// there. One that has vanished is taken off the bridge, and so is one that another
// link has taken the name of, as the userspace datapath holds on to the old one.
func (k *keeper) prepareTrunk() (trunkless bool, problem error) {
	t := k.config.trunk()
	if t.kind != "" {
		return false, nil
	}
	_, ours := k.db.trunk()
	link, there, err := k.links.state(t.name)
	known := k.uplink
	k.uplink = link.index
	switch {
	case err != nil:
		return !ours, err // nobody knows: it stays as it is
	case !there:
		return true, fault.New(fault.NotFound, "%s: there is no such link", t)
	case ours && known != link.index && known != 0:
		return true, fault.New(fault.Unavailable, "%s: another link has taken its name", t)
	case ours && link.down:
		return false, k.links.setUp(t.name)
	case ours:
		return false, nil
	case k.db.hasInterface(t.name):
		return true, fault.New(fault.Conflict, "%s is a port of another bridge", t)
	case k.detached != 0 && !k.seenConfig(k.detached):
		return true, fault.New(fault.Unavailable, "%s is being taken off the bridge", t)
	}
	own, err := k.links.hostAddresses(t.name)
	if err == nil && len(own) > 0 {
		err = fault.New(fault.Conflict, "%s carries the host's addresses %s, which would be cut off: give them to another link", t, strings.Join(own, ", "))
	}
	return err != nil, err
}

// trunkFailure says why the switch cannot open a trunk that is there.
func (d *Driver) trunkFailure() error {
	if t, ok := d.db.trunk(); ok && t.link.Error != nil {
		return fault.New(fault.Unavailable, "%s: %s", d.config.trunk(), *t.link.Error)
	}
	return nil
}

// linkState is what matters of a link that is not ours.
type linkState struct {
	index int // in its namespace; another link of the same name has another one
	down  bool
}

// state returns the state of a link, and whether there is such a link.
func (l *links) state(name string) (state linkState, there bool, err error) {
	link, err := l.handle.LinkByName(name)
	switch {
	case isNotFound(err):
		return linkState{}, false, nil
	case err != nil:
		return linkState{}, false, fault.New(fault.Unavailable, "link %s: %w", name, err)
	}
	return linkState{index: link.Attrs().Index, down: link.Attrs().Flags&net.FlagUp == 0}, true, nil
}

// hostAddresses are those of a link that the host is reached by.
func (l *links) hostAddresses(name string) (addresses []string, err error) {
	link, err := l.handle.LinkByName(name)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "link %s: %w", name, err)
	}
	list, err := l.handle.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "addresses of link %s: %w", name, err)
	}
	for _, a := range list {
		if a.IP.IsGlobalUnicast() {
			addresses = append(addresses, (&net.IPNet{IP: a.IP, Mask: a.Mask}).String())
		}
	}
	return addresses, nil
}

// endpointMTU is what fits through the trunk, for those who send without a tag:
// Ethernet has room for one beside the MTU.
func (d *Driver) endpointMTU() (int, error) {
	if d.config.Uplink == "" {
		return d.links.tunnelMTU(d.config.VTEP)
	}
	mtu, ok, err := d.links.mtu(d.config.Uplink)
	if err != nil {
		return 0, err
	}
	if !ok {
		mtu = defaultMTU
	}
	return min(mtu, maxLinkMTU), nil
}

// pipelineConfig is what the pipeline is told of the bridge.
func (c Config) pipelineConfig(at fixedPorts, noMeters bool) pipeline.Config {
	if c.Uplink != "" {
		return pipeline.Config{UplinkPort: at.trunk, NamesPort: at.names, NoMeters: noMeters}
	}
	return pipeline.Config{TunnelPort: at.trunk, LocalVTEP: c.VTEP, NamesPort: at.names, NoMeters: noMeters}
}

// fixedPorts are the numbers of the ports that are part of the flows of many objects.
type fixedPorts struct {
	trunk uint32 // 0: not known
	names uint32 // 0: there is no name server
}

func (db *database) fixedPorts() fixedPorts {
	return fixedPorts{trunk: db.trunkNumber(), names: db.namesNumber()}
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

// linkGroup is a mark that the kernel keeps with a link and that is set in the
// same request that makes it: this is how a driver knows its links again, and
// leaves those of the other bridge to the other driver. The alias, which cannot
// be, says whose the link is.
func linkGroup(e pipeline.Encap) uint32 { return 0xc0 + uint32(e) }
