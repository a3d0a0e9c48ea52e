package ovsd

import (
	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/ovsdb"
)

// Keys of external_ids.
const (
	idEndpoint = "endpoint-id" // Port, Interface: the endpoint it belongs to
)

type rootRow struct {
	UUID    ovsdb.UUID   `ovsdb:"_uuid"`
	Bridges []ovsdb.UUID `ovsdb:"bridges"`
	CurCfg  int64        `ovsdb:"cur_cfg"` // the next_cfg that ovs-vswitchd has caught up with
}

type bridgeRow struct {
	UUID        ovsdb.UUID        `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Datapath    string            `ovsdb:"datapath_type"` // "" is "system"
	FailMode    *string           `ovsdb:"fail_mode"`
	Protocols   []string          `ovsdb:"protocols"`
	Ports       []ovsdb.UUID      `ovsdb:"ports"`
	OtherConfig map[string]string `ovsdb:"other_config"`
}

type portRow struct {
	UUID        ovsdb.UUID        `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Interfaces  []ovsdb.UUID      `ovsdb:"interfaces"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type interfaceRow struct {
	UUID          ovsdb.UUID        `ovsdb:"_uuid"`
	Name          string            `ovsdb:"name"`
	Type          string            `ovsdb:"type"`
	Options       map[string]string `ovsdb:"options"`
	OFPort        *int64            `ovsdb:"ofport"` // missing: not seen by ovs-vswitchd yet; -1: it failed
	OFPortRequest *int64            `ovsdb:"ofport_request"`
	Error         *string           `ovsdb:"error"` // why it failed
	ExternalIDs   map[string]string `ovsdb:"external_ids"`
}

// number is the port's OpenFlow number; 0: none.
func (i interfaceRow) number() uint32 {
	if i.OFPort == nil || *i.OFPort <= 0 {
		return 0
	}
	return uint32(*i.OFPort)
}

// database is our copy of the switch's database.
type database struct {
	client     *ovsdb.Client
	bridge     string
	root       *ovsdb.Table[rootRow]
	bridges    *ovsdb.Table[bridgeRow]
	ports      *ovsdb.Table[portRow]
	interfaces *ovsdb.Table[interfaceRow]
}

// ourBridge is the row of the bridge we own.
func (db *database) ourBridge() (bridgeRow, bool) {
	return db.bridges.Find(func(b bridgeRow) bool { return b.Name == db.bridge })
}

// attached is a port of our bridge with its only interface.
type attached struct {
	port portRow
	link interfaceRow
}

// attachedPorts lists the ports of our bridge. Bonds, which we never make, are
// left out.
func (db *database) attachedPorts() []attached {
	bridge, ok := db.ourBridge()
	if !ok {
		return nil
	}
	list := make([]attached, 0, len(bridge.Ports))
	for _, id := range bridge.Ports {
		port, ok := db.ports.Get(id)
		if !ok || len(port.Interfaces) != 1 {
			continue
		}
		if link, ok := db.interfaces.Get(port.Interfaces[0]); ok {
			list = append(list, attached{port, link})
		}
	}
	return list
}

// endpointPorts lists those that we made for an endpoint.
func (db *database) endpointPorts() []attached {
	all := db.attachedPorts()
	list := make([]attached, 0, len(all))
	for _, a := range all {
		if _, ok := hostLinkNumber(a.link.Name); ok && a.link.ExternalIDs[idEndpoint] != "" {
			list = append(list, a)
		}
	}
	return list
}

// portOf finds the port of an endpoint.
func (db *database) portOf(endpointID string) (attached, bool) {
	for _, a := range db.endpointPorts() {
		if a.link.ExternalIDs[idEndpoint] == endpointID {
			return a, true
		}
	}
	return attached{}, false
}

// hasInterface tells whether a link is in any bridge.
func (db *database) hasInterface(name string) bool {
	_, ok := db.interfaces.Find(func(i interfaceRow) bool { return i.Name == name })
	return ok
}

// tunnel finds our tunnel port.
func (db *database) tunnel() (attached, bool) {
	for _, a := range db.attachedPorts() {
		if a.port.Name == tunnelName {
			return a, true
		}
	}
	return attached{}, false
}

// portNumbers maps endpoints to OpenFlow numbers, the tunnel's included.
func (db *database) portNumbers() (endpoints map[string]uint32, tunnel uint32) {
	endpoints, tunnel = map[string]uint32{}, tunnelNumber
	for _, a := range db.attachedPorts() {
		number := a.link.number()
		switch id := a.link.ExternalIDs[idEndpoint]; {
		case a.port.Name == tunnelName && number != 0:
			tunnel = number
		case id != "" && number != 0:
			endpoints[id] = number
		}
	}
	return endpoints, tunnel
}

// describe turns rows into what the agent is told.
func (a attached) describe(mtu int) drivers.Port {
	return drivers.Port{
		EndpointID: a.link.ExternalIDs[idEndpoint],
		HostLink:   a.link.Name,
		PodLink:    podLinkOf(a.link.Name),
		OFPort:     a.link.number(),
		MTU:        mtu,
	}
}
