package ovsd

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	"github.com/contiv/netplugin/ofnet/ovsdb"
)

// The one tunnel port. It asks for the lowest number, so that endpoint ports
// have the rest.
const (
	tunnelName          = "vxif0"
	tunnelNumber uint32 = 1
)

// wantedBridge is what the rows of our bridge should say. Columns and keys not
// named here are left to whoever sets them.
type wantedBridge struct {
	name      string
	datapath  string
	vtep      netip.Addr
	vxlanPort uint16
}

// protocols: we speak 1.3, operators' tools default to 1.0.
var protocols = []string{"OpenFlow10", "OpenFlow11", "OpenFlow12", "OpenFlow13"}

// failMode secure: without a controller the switch keeps its flows and invents
// none. We dial the switch, so it never has a controller in its own eyes.
var failMode = "secure"

func (w wantedBridge) otherConfig() map[string]string {
	// In-band control would add hidden flows that come before ours.
	return map[string]string{"disable-in-band": "true"}
}

func (w wantedBridge) tunnelOptions() map[string]string {
	return map[string]string{
		"local_ip":  w.vtep.String(),
		"remote_ip": "flow",
		"key":       "flow",
		"dst_port":  strconv.Itoa(int(w.vxlanPort)),
		"tos":       "inherit",
		// A tunnelled packet that is too big for a link of the underlay is
		// fragmented there: pods could not be told, and would lose it silently.
		"df_default": "false",
	}
}

// operations returns what makes the rows right, none if they are.
func (w wantedBridge) operations(db *database) []ovsdb.Operation {
	bridge, ok := db.ourBridge()
	if !ok {
		return w.create(db)
	}
	ops := w.correct(bridge)
	tunnel, ok := db.tunnel()
	if !ok {
		ops = append(ops, w.insertTunnel("tunnel")...)
		ops = append(ops, ovsdb.Mutate("Bridge", ovsdb.Where("_uuid", bridge.UUID),
			ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: ovsdb.UUID("tunnel")}))
	} else if tunnel.link.Type != "vxlan" || !maps.Equal(tunnel.link.Options, w.tunnelOptions()) {
		ops = append(ops, ovsdb.Update("Interface", ovsdb.Where("_uuid", tunnel.link.UUID),
			ovsdb.Row{"type": "vxlan", "options": w.tunnelOptions()}))
	}
	// ovs-vswitchd tries a port that failed again only when something changes:
	// a bridge that was made in place of a deleted one finds the name taken.
	if len(ops) == 0 && ok && tunnel.link.Error != nil {
		ops = append(ops, ovsdb.Comment("tried again"))
	}
	return ops
}

// create makes the bridge with its local port, as ovs-vsctl add-br does, and
// the tunnel port.
func (w wantedBridge) create(db *database) []ovsdb.Operation {
	ops := w.insertTunnel("tunnel")
	ops = append(ops,
		ovsdb.Insert("Interface", "local_interface", ovsdb.Row{"name": w.name, "type": "internal"}),
		ovsdb.Insert("Port", "local", ovsdb.Row{"name": w.name, "interfaces": ovsdb.UUID("local_interface")}),
		ovsdb.Insert("Bridge", "bridge", ovsdb.Row{
			"name":          w.name,
			"datapath_type": w.datapath,
			"fail_mode":     failMode,
			"protocols":     protocols,
			"other_config":  w.otherConfig(),
			"ports":         []ovsdb.UUID{"local", "tunnel"},
		}))
	if len(db.root.Rows()) == 0 {
		// A database nobody has initialised yet.
		return append(ops, ovsdb.Insert("Open_vSwitch", "", ovsdb.Row{"bridges": ovsdb.UUID("bridge"), "next_cfg": 1}))
	}
	return append(ops, ovsdb.Mutate("Open_vSwitch", ovsdb.All(),
		ovsdb.Mutation{Column: "bridges", Mutator: "insert", Value: ovsdb.UUID("bridge")}))
}

func (w wantedBridge) insertTunnel(name string) []ovsdb.Operation {
	return []ovsdb.Operation{
		ovsdb.Insert("Interface", name+"_interface", ovsdb.Row{
			"name": tunnelName, "type": "vxlan", "options": w.tunnelOptions(), "ofport_request": tunnelNumber,
		}),
		ovsdb.Insert("Port", name, ovsdb.Row{"name": tunnelName, "interfaces": ovsdb.UUID(name + "_interface")}),
	}
}

// correct sets right what is wrong in the row of an existing bridge.
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

// cmpDatapath gives the kernel's datapath its name; empty means the same.
func cmpDatapath(name string) string {
	if name == "" {
		return DatapathSystem
	}
	return name
}

// setKeys sets some keys of a map column and leaves the others alone.
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
	// Inserting does not overwrite: the old pair has to go first.
	return []ovsdb.Operation{ovsdb.Mutate(table, where,
		ovsdb.Mutation{Column: column, Mutator: "delete", Value: slices.Sorted(maps.Keys(wrong))},
		ovsdb.Mutation{Column: column, Mutator: "insert", Value: wrong})}
}

// configure writes rows, and asks ovs-vswitchd to say when it has caught up: that
// is when seenConfig knows the returned configuration.
func (db *database) configure(ctx context.Context, ops ...ovsdb.Operation) (results []ovsdb.Result, config int64, err error) {
	results, err = db.client.Transact(ctx, append(ops, bumpConfig(), ovsdb.Select("Open_vSwitch", ovsdb.All(), "next_cfg"))...)
	if err != nil {
		return nil, 0, err
	}
	var root struct {
		NextCfg int64 `ovsdb:"next_cfg"`
	}
	if rows := results[len(ops)+1].Rows; len(rows) > 0 {
		err = ovsdb.DecodeRow(rows[0], &root)
	}
	return results, root.NextCfg, err
}

// bumpConfig asks ovs-vswitchd to say when it has caught up, see rootRow.
func bumpConfig() ovsdb.Operation {
	return ovsdb.Mutate("Open_vSwitch", ovsdb.All(), ovsdb.Mutation{Column: "next_cfg", Mutator: "+=", Value: 1})
}
