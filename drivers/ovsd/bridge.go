package ovsd

import (
	"maps"
	"slices"

	"github.com/contiv/netplugin/ofnet/ovsdb"
)

// wantedBridge is the wanted contents of the bridge's rows. Columns and keys not named here are left unchanged.
type wantedBridge struct {
	name     string
	datapath string
	trunk    trunk
}

// protocols: the driver uses 1.3, operators' tools default to 1.0.
var protocols = []string{"OpenFlow10", "OpenFlow11", "OpenFlow12", "OpenFlow13"}

// failMode secure: without a controller the switch keeps its flows and adds none. The driver dials the switch,
// so for the switch there never is a controller.
var failMode = "secure"

func (w wantedBridge) otherConfig() map[string]string {
	// In-band control would add hidden flows of higher priority.
	return map[string]string{"disable-in-band": "true"}
}

// operations returns the operations that correct the rows, none if they are right.
func (w wantedBridge) operations(db *database) []ovsdb.Operation {
	bridge, ok := db.ourBridge()
	if !ok {
		return w.create(db)
	}
	ops, here := w.correct(bridge), ovsdb.Where("_uuid", bridge.UUID)
	for _, former := range formerUplinks(db, bridge) {
		ops = append(ops, ovsdb.Mutate("Bridge", here, ovsdb.Mutation{Column: "ports", Mutator: "delete", Value: former}))
	}
	trunk, ok := db.trunk()
	switch {
	case !ok && db.taken(w.trunk.name) != nil:
	case !ok:
		ops = append(ops, w.trunk.insert()...)
		ops = append(ops, ovsdb.Mutate("Bridge", here, ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: ovsdb.UUID("trunk")}))
	case !w.trunk.isRight(trunk.link):
		ops = append(ops, ovsdb.Update("Interface", ovsdb.Where("_uuid", trunk.link.UUID),
			ovsdb.Row{"type": w.trunk.kind, "options": w.trunk.options}))
	}
	// ovs-vswitchd retries a failed port only when something changes: a bridge that was made in place of a
	// deleted one finds the name taken.
	if len(ops) == 0 && ok && trunk.link.Error != nil {
		ops = append(ops, ovsdb.Comment("tried again"))
	}
	return ops
}

// create makes the bridge with its local port, as ovs-vsctl add-br does, and
// the trunk, unless another port has its name.
func (w wantedBridge) create(db *database) []ovsdb.Operation {
	ops, ports := []ovsdb.Operation(nil), []ovsdb.UUID{"local"}
	if db.taken(w.trunk.name) == nil {
		ops, ports = w.trunk.insert(), append(ports, "trunk")
	}
	ops = append(ops,
		ovsdb.Insert("Interface", "local_interface", ovsdb.Row{"name": w.name, "type": "internal"}),
		ovsdb.Insert("Port", "local", ovsdb.Row{"name": w.name, "interfaces": ovsdb.UUID("local_interface")}),
		ovsdb.Insert("Bridge", "bridge", ovsdb.Row{
			"name":          w.name,
			"datapath_type": w.datapath,
			"fail_mode":     failMode,
			"protocols":     protocols,
			"other_config":  w.otherConfig(),
			"ports":         ports,
		}))
	if len(db.root.Rows()) == 0 {
		// The database is not initialised yet.
		return append(ops, ovsdb.Insert("Open_vSwitch", "", ovsdb.Row{"bridges": ovsdb.UUID("bridge"), "next_cfg": 1}))
	}
	return append(ops, ovsdb.Mutate("Open_vSwitch", ovsdb.All(),
		ovsdb.Mutation{Column: "bridges", Mutator: "insert", Value: ovsdb.UUID("bridge")}))
}

// correct corrects the row of an existing bridge.
func (w wantedBridge) correct(bridge bridgeRow) []ovsdb.Operation {
	row := ovsdb.Row{}
	if cmpDatapath(bridge.Datapath) != w.datapath {
		row["datapath_type"] = w.datapath
	}
	if bridge.FailMode == nil || *bridge.FailMode != failMode {
		row["fail_mode"] = failMode
	}
	if have := slices.Sorted(slices.Values(bridge.Protocols)); !slices.Equal(have, protocols) {
		row["protocols"] = protocols
	}
	here := ovsdb.Where("_uuid", bridge.UUID)
	var ops []ovsdb.Operation
	if len(row) > 0 {
		ops = append(ops, ovsdb.Update("Bridge", here, row))
	}
	return append(ops, setKeys("Bridge", here, "other_config", bridge.OtherConfig, w.otherConfig())...)
}

// cmpDatapath returns the kernel datapath's name also for an empty one, which means the same.
func cmpDatapath(name string) string {
	if name == "" {
		return DatapathSystem
	}
	return name
}

// setKeys sets some keys of a map column and leaves the others unchanged.
func setKeys(table string, where []ovsdb.Condition, column string, have, want map[string]string) []ovsdb.Operation {
	wrong := map[string]string{}
	for key, value := range want {
		if old, ok := have[key]; !ok || old != value {
			wrong[key] = value
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	// Inserting does not overwrite: the old pair has to be deleted first.
	return []ovsdb.Operation{ovsdb.Mutate(table, where,
		ovsdb.Mutation{Column: column, Mutator: "delete", Value: slices.Sorted(maps.Keys(wrong))},
		ovsdb.Mutation{Column: column, Mutator: "insert", Value: wrong})}
}
