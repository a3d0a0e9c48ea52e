package uplink

import (
	"errors"
	"maps"
	"slices"

	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/utils/fault"
)

// Rows of the database, with the relevant columns.
type (
	rootRow struct {
		UUID    ovsdb.UUID `ovsdb:"_uuid"`
		NextCfg int64      `ovsdb:"next_cfg"`
		CurCfg  int64      `ovsdb:"cur_cfg"` // the next_cfg that ovs-vswitchd has applied
	}
	bridgeRow struct {
		UUID        ovsdb.UUID        `ovsdb:"_uuid"`
		Name        string            `ovsdb:"name"`
		Datapath    string            `ovsdb:"datapath_type"`
		FailMode    *string           `ovsdb:"fail_mode"`
		Ports       []ovsdb.UUID      `ovsdb:"ports"`
		OtherConfig map[string]string `ovsdb:"other_config"`
	}
	portRow struct {
		UUID        ovsdb.UUID        `ovsdb:"_uuid"`
		Name        string            `ovsdb:"name"`
		Interfaces  []ovsdb.UUID      `ovsdb:"interfaces"`
		Tag         *int64            `ovsdb:"tag"`
		Trunks      []int64           `ovsdb:"trunks"`
		VLANMode    *string           `ovsdb:"vlan_mode"`
		BondMode    *string           `ovsdb:"bond_mode"`
		LACP        *string           `ovsdb:"lacp"`
		OtherConfig map[string]string `ovsdb:"other_config"`
	}
	interfaceRow struct {
		UUID    ovsdb.UUID        `ovsdb:"_uuid"`
		Name    string            `ovsdb:"name"`
		Type    string            `ovsdb:"type"`
		Options map[string]string `ovsdb:"options"`
		Error   *string           `ovsdb:"error"`  // why it failed
		OFPort  *int64            `ovsdb:"ofport"` // number of the port; negative: refused

		LACPCurrent *bool `ovsdb:"lacp_current"` // whether the other side answers; nil without LACP
	}
)

// database is a replica of the switch's database.
type database struct {
	client     *ovsdb.Client
	root       *ovsdb.Table[rootRow]
	bridges    *ovsdb.Table[bridgeRow]
	ports      *ovsdb.Table[portRow]
	interfaces *ovsdb.Table[interfaceRow]
	named      *ovsdb.Index[bridgeRow]
	linkNamed  *ovsdb.Index[interfaceRow]
}

func newDatabase() *database {
	db := &database{
		root: ovsdb.NewTable[rootRow]("Open_vSwitch", nil), bridges: ovsdb.NewTable[bridgeRow]("Bridge", nil),
		ports: ovsdb.NewTable[portRow]("Port", nil), interfaces: ovsdb.NewTable[interfaceRow]("Interface", nil),
	}
	db.named = db.bridges.Index(func(b bridgeRow) string { return b.Name })
	db.linkNamed = db.interfaces.Index(func(i interfaceRow) string { return i.Name })
	return db
}

func (db *database) bridge(name string) (bridgeRow, bool) { return db.named.Row(name) }

// port returns a port of a bridge.
func (db *database) port(bridge bridgeRow, name string) (portRow, bool) {
	for _, id := range bridge.Ports {
		if port, ok := db.ports.Get(id); ok && port.Name == name {
			return port, true
		}
	}
	return portRow{}, false
}

// members returns the uplinks of a bridge, by name.
func (db *database) members(bridge string) map[string]interfaceRow {
	all := map[string]interfaceRow{}
	if b, ok := db.bridge(bridge); ok {
		port, _ := db.port(b, uplinkPort)
		for _, id := range port.Interfaces {
			if link, ok := db.interfaces.Get(id); ok {
				all[link.Name] = link
			}
		}
	}
	return all
}

// opened returns the links that ovs-vswitchd has made ports. Others have at most a row.
func (db *database) opened(bridge string, links []string) []string {
	members := db.members(bridge)
	return slices.DeleteFunc(slices.Clone(links), func(name string) bool {
		row := members[name]
		return row.Error != nil || row.OFPort == nil || *row.OFPort <= 0
	})
}

// bridgeOf returns the bridge with a link as port, "" if none.
func (db *database) bridgeOf(link string) string {
	row, ok := db.linkNamed.Row(link)
	if !ok {
		return ""
	}
	port, _ := db.ports.Find(func(p portRow) bool { return slices.Contains(p.Interfaces, row.UUID) })
	bridge, _ := db.bridges.Find(func(b bridgeRow) bool { return slices.Contains(b.Ports, port.UUID) })
	return bridge.Name
}

// taken returns an error if a port or an interface of another bridge has a name: another one cannot be inserted.
func (db *database) taken(name, bridge string) error {
	if b, there := db.bridge(bridge); there {
		if _, ours := db.port(b, name); ours {
			return nil
		}
	}
	link, isLink := db.linkNamed.Row(name)
	port, found := db.ports.Find(func(p portRow) bool { return p.Name == name || isLink && slices.Contains(p.Interfaces, link.UUID) })
	if !found {
		return nil
	}
	holder, _ := db.bridges.Find(func(b bridgeRow) bool { return slices.Contains(b.Ports, port.UUID) })
	return fault.New(fault.Conflict, "port %s of bridge %s has the name of ours: remove or rename it", name, holder.Name)
}

// seen returns the configuration number that ovs-vswitchd has applied.
func (db *database) seen() int64 { return db.rootRow().CurCfg }

func (db *database) rootRow() rootRow {
	root, _ := db.root.Find(func(rootRow) bool { return true })
	return root
}

// wanted is the wanted content of the rows.
type wanted struct {
	name     string
	datapath string
	links    []string // links that can be ports now
	mode     BondMode // empty: a single link
	hardware string   // MAC of the local port; empty: any but former
	former   string   // its former MAC, which belongs to a link again
}

// failMode standalone: without a controller it is a learning switch.
const failMode = "standalone"

// taken returns an error for each name of ours that another bridge has.
func (w wanted) taken(db *database) (err error) {
	for _, name := range []string{w.name, PeerPort, uplinkPort} {
		err = errors.Join(err, db.taken(name, w.name))
	}
	return err
}

// operations returns the operations that correct the rows, none if they are correct.
func (w wanted) operations(db *database) []ovsdb.Operation {
	bridge, ok := db.bridge(w.name)
	if !ok {
		return w.create()
	}
	here := ovsdb.Where("_uuid", bridge.UUID)
	var ops []ovsdb.Operation
	row := ovsdb.Row{}
	if bridge.Datapath != w.datapath {
		row["datapath_type"] = w.datapath
	}
	if bridge.FailMode == nil || *bridge.FailMode != failMode {
		row["fail_mode"] = failMode
	}
	if w.changesHardware(bridge) {
		row["other_config"] = w.otherConfig(bridge.OtherConfig)
	}
	if len(row) > 0 {
		ops = append(ops, ovsdb.Update("Bridge", here, row))
	}
	if local, ok := db.port(bridge, w.name); ok && (local.Tag == nil || *local.Tag != 0 || local.VLANMode == nil || *local.VLANMode != "access") {
		ops = append(ops, ovsdb.Update("Port", ovsdb.Where("_uuid", local.UUID), localPort()))
	}
	if patch, ok := db.port(bridge, PeerPort); !ok {
		ops = append(append(ops, insertPatch()...), join(here, "patch"))
	} else if link, _ := db.linkNamed.Row(PeerPort); link.Type != "patch" || link.Options["peer"] != PatchPort || patch.Tag != nil || len(patch.Trunks) > 0 {
		ops = append(ops, ovsdb.Update("Interface", ovsdb.Where("_uuid", link.UUID), patchInterface()),
			ovsdb.Update("Port", ovsdb.Where("_uuid", patch.UUID), ovsdb.Row{"tag": []int64{}, "trunks": []int64{}, "vlan_mode": []string{}}))
	}
	return append(ops, w.uplink(db, bridge)...)
}

// create returns the operations that create the bridge with all its ports.
func (w wanted) create() []ovsdb.Operation {
	local := localPort()
	local["name"], local["interfaces"] = w.name, ovsdb.UUID("local_interface")
	ops, ports := insertPatch(), []ovsdb.UUID{"local", "patch"}
	if len(w.links) > 0 {
		ops, ports = append(ops, w.insertUplink()...), append(ports, "uplink")
	}
	return append(ops,
		ovsdb.Insert("Interface", "local_interface", ovsdb.Row{"name": w.name, "type": "internal"}),
		ovsdb.Insert("Port", "local", local),
		ovsdb.Insert("Bridge", "bridge", ovsdb.Row{"name": w.name, "datapath_type": w.datapath, "fail_mode": failMode, "ports": ports, "other_config": w.otherConfig(nil)}),
		ovsdb.Mutate("Open_vSwitch", ovsdb.All(), ovsdb.Mutation{Column: "bridges", Mutator: "insert", Value: ovsdb.UUID("bridge")}))
}

// touchesLocal reports whether ovs-vswitchd will create or change the local port.
func (w wanted) touchesLocal(db *database) bool {
	bridge, ok := db.bridge(w.name)
	return !ok || bridge.Datapath != w.datapath || w.changesHardware(bridge)
}

func (w wanted) changesHardware(bridge bridgeRow) bool {
	return !maps.Equal(bridge.OtherConfig, w.otherConfig(bridge.OtherConfig))
}

// otherConfig sets the MAC of the local port. Without one Open vSwitch chooses that of a port: the
// host has no addresses there.
func (w wanted) otherConfig(have map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, have)
	if all["hwaddr"] == w.former {
		delete(all, "hwaddr")
	}
	if w.hardware != "" {
		all["hwaddr"] = w.hardware
	}
	return all
}

// localPort keeps packets flooded on VLANs, which are for pods, off the host: its own packets have no tag.
func localPort() ovsdb.Row { return ovsdb.Row{"vlan_mode": "access", "tag": 0} }

func patchInterface() ovsdb.Row {
	return ovsdb.Row{"type": "patch", "options": map[string]string{"peer": PatchPort}}
}

func insertPatch() []ovsdb.Operation {
	link := patchInterface()
	link["name"] = PeerPort
	return []ovsdb.Operation{
		ovsdb.Insert("Interface", "patch_interface", link),
		ovsdb.Insert("Port", "patch", ovsdb.Row{"name": PeerPort, "interfaces": ovsdb.UUID("patch_interface")}),
	}
}

// join adds a port that is inserted with this name to the bridge.
func join(bridge []ovsdb.Condition, port ovsdb.UUID) ovsdb.Operation {
	return ovsdb.Mutate("Bridge", bridge, ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: port})
}

// uplink corrects the port of the links. Remaining members keep their rows.
func (w wanted) uplink(db *database, bridge bridgeRow) []ovsdb.Operation {
	here := ovsdb.Where("_uuid", bridge.UUID)
	port, there := db.port(bridge, uplinkPort)
	have := db.members(w.name)
	switch {
	case !there && len(w.links) == 0:
		return nil
	case !there:
		return append(w.insertUplink(), join(here, "uplink"))
	case len(w.links) == 0:
		return []ovsdb.Operation{ovsdb.Mutate("Bridge", here, ovsdb.Mutation{Column: "ports", Mutator: "delete", Value: port.UUID})}
	}
	row := w.correctBond(port)
	var ops []ovsdb.Operation
	if !slices.Equal(slices.Sorted(maps.Keys(have)), slices.Sorted(slices.Values(w.links))) {
		var members []ovsdb.UUID
		for _, name := range w.links {
			if link, ok := have[name]; ok {
				members = append(members, link.UUID)
				continue
			}
			insert, id := insertMember(name)
			ops, members = append(ops, insert), append(members, id)
		}
		row["interfaces"] = members
	}
	if len(row) > 0 {
		ops = append(ops, ovsdb.Update("Port", ovsdb.Where("_uuid", port.UUID), row))
	}
	return ops
}

// insertUplink inserts the rows. The port's row is named "uplink".
func (w wanted) insertUplink() (ops []ovsdb.Operation) {
	var members []ovsdb.UUID
	for _, name := range w.links {
		insert, id := insertMember(name)
		ops, members = append(ops, insert), append(members, id)
	}
	row := w.correctBond(portRow{})
	row["name"], row["interfaces"] = uplinkPort, members
	row["external_ids"] = map[string]string{"endpoint-id": uplinkPort} // as in the original controller
	return append(ops, ovsdb.Insert("Port", "uplink", row))
}

func insertMember(name string) (ovsdb.Operation, ovsdb.UUID) {
	id := ovsdb.UUID("member")
	for _, c := range []byte(name) { // names of rows have letters, digits and underscores only
		id += ovsdb.UUID("_" + string("0123456789abcdef"[c>>4]) + string("0123456789abcdef"[c&15]))
	}
	return ovsdb.Insert("Interface", string(id), ovsdb.Row{"name": name}), id
}

// mustRemake reports whether the port of the links has to be replaced. ovs-vswitchd may leave members disabled
// when LACP is switched off (seen in 3.1), and a single link would keep the settings of its former bond.
func (w wanted) mustRemake(db *database) bool {
	bridge, _ := db.bridge(w.name)
	port, there := db.port(bridge, uplinkPort)
	if !there {
		return false
	}
	if w.mode == "" {
		return port.BondMode != nil
	}
	return port.LACP != nil && *port.LACP != w.mode.lacp()
}

// correctBond returns the wrong columns of a bond. Those of a single link are not managed.
func (w wanted) correctBond(have portRow) ovsdb.Row {
	row := ovsdb.Row{}
	if w.mode == "" {
		return row
	}
	if have.BondMode == nil || *have.BondMode != string(w.mode) {
		row["bond_mode"] = string(w.mode)
	}
	if have.LACP == nil || *have.LACP != w.mode.lacp() {
		row["lacp"] = w.mode.lacp()
	}
	other := maps.Clone(have.OtherConfig)
	if other == nil {
		other = map[string]string{}
	}
	maps.Copy(other, w.mode.otherConfig())
	if !maps.Equal(other, have.OtherConfig) {
		row["other_config"] = other
	}
	return row
}
