package ovsd

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/utils/fault"
)

// Keys of external_ids.
const (
	idEndpoint = "endpoint-id" // Port, Interface: the endpoint it belongs to
	idMTU      = "pod-mtu"     // Interface: the endpoint's MTU, in bytes
	idSlowed   = "slowed"      // Interface: whether the endpoint's packets are rate limited (slowed.go)

	idLastNumber = "last-port-number" // Bridge: the number of the latest endpoint port
)

type rootRow struct {
	UUID    ovsdb.UUID   `ovsdb:"_uuid"`
	Bridges []ovsdb.UUID `ovsdb:"bridges"`
	CurCfg  int64        `ovsdb:"cur_cfg"` // the next_cfg that ovs-vswitchd has applied
	// Types of datapaths that ovs-vswitchd supports; empty: it has never run.
	DatapathTypes []string `ovsdb:"datapath_types"`
}

type bridgeRow struct {
	UUID        ovsdb.UUID        `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Datapath    string            `ovsdb:"datapath_type"` // "" is "system"
	FailMode    *string           `ovsdb:"fail_mode"`
	Protocols   []string          `ovsdb:"protocols"`
	Ports       []ovsdb.UUID      `ovsdb:"ports"`
	Controllers []ovsdb.UUID      `ovsdb:"controller"`
	OtherConfig map[string]string `ovsdb:"other_config"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type portRow struct {
	UUID        ovsdb.UUID        `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Interfaces  []ovsdb.UUID      `ovsdb:"interfaces"`
	Tag         *int64            `ovsdb:"tag"`
	Trunks      []int64           `ovsdb:"trunks"`
	VLANMode    *string           `ovsdb:"vlan_mode"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type interfaceRow struct {
	UUID          ovsdb.UUID        `ovsdb:"_uuid"`
	Name          string            `ovsdb:"name"`
	Type          string            `ovsdb:"type"`
	Options       map[string]string `ovsdb:"options"`
	OFPort        *int64            `ovsdb:"ofport"` // missing: ovs-vswitchd has not processed it yet; -1: it failed
	OFPortRequest *int64            `ovsdb:"ofport_request"`
	MTURequest    *int64            `ovsdb:"mtu_request"` // bytes
	IfIndex       *int64            `ovsdb:"ifindex"`     // only watched: it changes when the link is deleted
	AdminState    *string           `ovsdb:"admin_state"` // only watched: it changes when the link is set down
	Error         *string           `ovsdb:"error"`       // why it failed
	ExternalIDs   map[string]string `ovsdb:"external_ids"`
}

// number returns the port's OpenFlow number; 0: none.
func (i interfaceRow) number() uint32 {
	if i.OFPort == nil || *i.OFPort <= 0 {
		return 0
	}
	return uint32(*i.OFPort)
}

// mtu returns the endpoint's MTU; 0: unknown. Earlier versions stored it only as MTU of both ends of the link.
func (i interfaceRow) mtu() int {
	if mtu, err := strconv.Atoi(i.ExternalIDs[idMTU]); err == nil {
		return mtu
	}
	if i.MTURequest == nil || *i.MTURequest >= maxLinkMTU {
		return 0
	}
	return int(*i.MTURequest)
}

// endpoint returns the id of the endpoint of this port, "" for other ports.
func (i interfaceRow) endpoint() string {
	if _, ok := hostLinkNumber(i.Name); !ok {
		return ""
	}
	return i.ExternalIDs[idEndpoint]
}

// meters returns the index key of the meters of an endpoint's port; "" for other ports.
func (i interfaceRow) meters() string {
	number, ok := hostLinkNumber(i.Name)
	if !ok || i.endpoint() == "" {
		return ""
	}
	return metersKey(metersOf(number))
}

func metersKey(meters uint32) string { return strconv.FormatUint(uint64(meters), 10) }

// database is the driver's replica of the switch's database.
type database struct {
	client     *ovsdb.Client
	bridge     string
	trunkName  string
	names      bool // there is a name server
	namesName  string
	root       *ovsdb.Table[rootRow]
	bridges    *ovsdb.Table[bridgeRow]
	ports      *ovsdb.Table[portRow]
	interfaces *ovsdb.Table[interfaceRow]
	// Other managers and controllers of the switch, which are only reported.
	managers, controllers *ovsdb.Table[targetRow]

	bridgeNamed *ovsdb.Index[bridgeRow]
	portNamed   *ovsdb.Index[portRow]
	linkNamed   *ovsdb.Index[interfaceRow]
	linksOf     *ovsdb.Index[interfaceRow] // by endpoint
	linksAt     *ovsdb.Index[interfaceRow] // by OpenFlow number
	linksWith   *ovsdb.Index[interfaceRow] // of endpoints, by their meters

	// The ports of our bridge, by the latest update of its row.
	own ownPorts
	// Changed since the last take: links for the keeper, endpoints
	// for the programmer.
	links, endpoints touched
	// Our bridge was changed in a way that makes ovs-vswitchd delete its flows, perhaps
	// without closing the OpenFlow connection.
	flushed atomic.Bool
	// The port of the name server has changed.
	namesTouched atomic.Bool
	// The keeper's first pass is complete; since then, an endpoint's port was added.
	started, portAdded atomic.Bool
}

// newDatabase makes the replica; it calls changed after
// every update.
func newDatabase(config Config, changed func()) (*database, error) {
	db := &database{bridge: config.Bridge, trunkName: config.trunk().name, names: config.Names, namesName: namesLinkName(config.encap()),
		root: ovsdb.NewTable[rootRow]("Open_vSwitch", nil), managers: ovsdb.NewTable[targetRow]("Manager", nil), controllers: ovsdb.NewTable[targetRow]("Controller", nil)}
	db.bridges = ovsdb.NewTable("Bridge", db.noteBridge)
	db.ports = ovsdb.NewTable("Port", db.notePort)
	db.interfaces = ovsdb.NewTable("Interface", db.noteInterface)
	db.bridgeNamed = db.bridges.Index(func(b bridgeRow) string { return b.Name })
	db.portNamed = db.ports.Index(func(p portRow) string { return p.Name })
	db.linkNamed = db.interfaces.Index(func(i interfaceRow) string { return i.Name })
	db.linksOf = db.interfaces.Index(func(i interfaceRow) string { return i.ExternalIDs[idEndpoint] })
	db.linksAt = db.interfaces.Index(func(i interfaceRow) string { return strconv.FormatUint(uint64(i.number()), 10) })
	db.linksWith = db.interfaces.Index(interfaceRow.meters)
	var err error
	db.client, err = ovsdb.New(ovsdb.Config{
		Target:   config.ovsdbTarget(),
		Lock:     drivers.LockName(config.Bridge),
		Log:      config.Log,
		OnUpdate: changed,
	}, db.root, db.bridges, db.ports, db.interfaces, db.managers, db.controllers)
	return db, err
}

// noteBridge marks the ports that were added to our bridge or removed from it, and a change that deletes its
// flows. Ports that were deleted altogether are marked by the change of their own
// row (notePort).
func (db *database) noteBridge(c ovsdb.Change[bridgeRow]) {
	if c.Old != nil && c.Old.Name == db.bridge && (c.New == nil || losesFlows(*c.Old, *c.New)) {
		db.flushed.Store(true)
	}
	moved := map[ovsdb.UUID]bool{}
	for _, row := range []*bridgeRow{c.Old, c.New} {
		if row == nil || row.Name != db.bridge {
			continue
		}
		for _, id := range row.Ports {
			moved[id] = !moved[id] // in both rows: it has stayed
		}
	}
	for id, yes := range moved {
		if port, ok := db.ports.Get(id); ok && yes {
			db.noteName(port.Name)
		}
	}
	db.own.change(c, db.bridge)
}

// losesFlows reports whether ovs-vswitchd deletes all flows at this change of a bridge. A bridge that was
// deleted and recreated at once counts as changed, too.
func losesFlows(old, now bridgeRow) bool {
	mode := func(b bridgeRow) string {
		if b.FailMode == nil {
			return ""
		}
		return *b.FailMode
	}
	return mode(old) != mode(now) || (len(old.Controllers) == 0) != (len(now.Controllers) == 0)
}

func (db *database) notePort(c ovsdb.Change[portRow]) {
	for _, row := range []*portRow{c.Old, c.New} {
		if row != nil {
			db.noteName(row.Name)
		}
	}
}

func (db *database) noteInterface(c ovsdb.Change[interfaceRow]) {
	for _, row := range []*interfaceRow{c.Old, c.New} {
		if row == nil {
			continue
		}
		db.noteName(row.Name)
		if id := row.ExternalIDs[idEndpoint]; id != "" {
			db.endpoints.add(id)
		}
	}
	if c.Old == nil && c.New.endpoint() != "" && db.started.Load() && !db.portAdded.Swap(true) {
		db.namesTouched.Store(true) // the name server's link may wait for this (namesWait)
	}
}

// noteName marks the port of the name server or of an endpoint as changed.
func (db *database) noteName(name string) {
	if name == db.namesName {
		db.namesTouched.Store(true)
	}
	if _, ok := hostLinkNumber(name); !ok {
		return
	}
	db.links.add(name)
	if link, ok := db.linkNamed.Row(name); ok && link.ExternalIDs[idEndpoint] != "" {
		db.endpoints.add(link.ExternalIDs[idEndpoint])
	}
}

// ourBridge returns the row of the driver's bridge.
func (db *database) ourBridge() (bridgeRow, bool) { return db.bridgeNamed.Row(db.bridge) }

// attached is a port of our bridge with its only interface.
type attached struct {
	port portRow
	link interfaceRow
}

// attachedAs finds the port of our bridge that has this name and an interface
// of the same name.
func (db *database) attachedAs(name string) (attached, bool) {
	bridge, ok := db.ourBridge()
	if !ok {
		return attached{}, false
	}
	port, ok := db.portNamed.Row(name)
	if !ok || len(port.Interfaces) != 1 || !slices.Contains(bridge.Ports, port.UUID) {
		return attached{}, false
	}
	link, ok := db.interfaces.Get(port.Interfaces[0])
	return attached{port, link}, ok && link.Name == name
}

// hasEndpoints reports whether any bridge has ports that were made for endpoints.
func (db *database) hasEndpoints() bool {
	_, found := db.interfaces.Find(func(i interfaceRow) bool { return i.endpoint() != "" })
	return found
}

// endpointPorts lists the ports of our bridge that were made for an endpoint.
func (db *database) endpointPorts() []attached {
	bridge, _ := db.ourBridge()
	list := make([]attached, 0, len(bridge.Ports))
	for _, id := range bridge.Ports {
		port, ok := db.ports.Get(id)
		if !ok || len(port.Interfaces) != 1 {
			continue
		}
		if link, ok := db.interfaces.Get(port.Interfaces[0]); ok && link.endpoint() != "" {
			list = append(list, attached{port, link})
		}
	}
	return list
}

// portOf finds the port of an endpoint.
func (db *database) portOf(endpointID string) (attached, bool) {
	for _, link := range db.linksOf.Rows(endpointID) {
		if a, ok := db.attachedAs(link.Name); ok && a.link.endpoint() == endpointID {
			return a, true
		}
	}
	return attached{}, false
}

// hasInterface reports whether a link is in any bridge.
func (db *database) hasInterface(name string) bool {
	_, ok := db.linkNamed.Row(name)
	return ok
}

// taken returns an error if there is a port or an interface with a name, in any bridge: another one cannot be inserted.
func (db *database) taken(name string) error {
	port, taken := db.portNamed.Row(name)
	if !taken {
		var link interfaceRow
		if link, taken = db.linkNamed.Row(name); taken {
			port, _ = db.ports.Find(func(p portRow) bool { return slices.Contains(p.Interfaces, link.UUID) })
		}
	}
	if !taken {
		return nil
	}
	bridge, _ := db.bridges.Find(func(b bridgeRow) bool { return slices.Contains(b.Ports, port.UUID) })
	return fault.New(fault.Conflict, "port %s of bridge %s has the name of ours: remove or rename it", name, bridge.Name)
}

// hasPortWith reports whether an endpoint's port of our bridge has these meters. Each bridge has meters of its own.
func (db *database) hasPortWith(meters uint32) bool {
	return slices.ContainsFunc(db.linksWith.Rows(metersKey(meters)), func(i interfaceRow) bool {
		port, ok := db.portNamed.Row(i.Name)
		return ok && db.own.has(port.UUID)
	})
}

// EndpointNumber returns the OpenFlow number of an endpoint's port; 0: none.
func (db *database) EndpointNumber(endpointID string) uint32 {
	port, _ := db.portOf(endpointID)
	return port.link.number()
}

// Slowed reports whether an endpoint's packets are rate limited (slowed.go).
func (db *database) Slowed(endpointID string) bool {
	port, _ := db.portOf(endpointID)
	return port.link.slowdown().on
}

// ChangedEndpoints returns, once, the endpoints whose ports have changed, for the programmer.
func (db *database) ChangedEndpoints() []string { return db.endpoints.take() }

// describe converts rows to the port of the drivers interface.
func (a attached) describe(mtu int) drivers.Port {
	return drivers.Port{
		EndpointID: a.link.ExternalIDs[idEndpoint],
		HostLink:   a.link.Name,
		PodLink:    podLinkOf(a.link.Name),
		OFPort:     a.link.number(),
		MTU:        mtu,
	}
}
