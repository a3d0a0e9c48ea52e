package ovsd

import (
	"context"
	"errors"

	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/netspace"
)

// keepNames reconciles the link and the port of the name server, if they have changed. It removes them
// if the node is configured without a name server.
func (k *keeper) keepNames(ctx context.Context) error {
	if !k.db.namesTouched.Swap(false) && k.started {
		return nil
	}
	err := k.lookAtNames(ctx)
	if err != nil {
		k.db.namesTouched.Store(true)
		return fault.New(kindOf(err), "port %s of the name server: %w", k.db.namesName, err)
	}
	return nil
}

func (k *keeper) lookAtNames(ctx context.Context) error {
	name := k.db.namesName
	port, attached := k.db.attachedAs(name)
	if !k.config.Names {
		return k.removeNames(ctx, port, attached)
	}
	if !attached {
		if wait, err := k.namesWait(); wait || err != nil {
			return err
		}
	}
	ns, fresh, err := netspace.Open(k.config.NamesNetNS)
	if err != nil {
		return err
	}
	defer ns.Close()
	inside, err := newLinks(&ns, 0)
	if err != nil {
		return err
	}
	defer inside.close()
	whole, err := k.links.joined(name, inside)
	switch {
	case err != nil:
		return err
	case !whole && attached:
		// The switch would not notice a new link of the same name: the port is removed first.
		return errors.Join(k.detachNames(ctx, port), errNamesDetached)
	case !whole && k.namesDetached != 0 && !k.seenConfig(k.namesDetached):
		return errNamesDetached
	case !attached && k.db.hasInterface(name):
		return fault.New(fault.Conflict, "link is a port of another bridge")
	case !whole:
		if err := errors.Join(k.links.remove(name), k.links.createNames(name, ns)); err != nil {
			return err
		}
		fresh = true
	}
	if err := errors.Join(inside.setUpNames(), netspace.Do(k.config.NamesNetNS, checksumsInSoftware), k.links.setUp(name)); err != nil {
		return err
	}
	if err := k.keepNamesPort(ctx, port, attached); err != nil {
		return err
	}
	k.names.found(fresh)
	return nil
}

// namesWait reports whether to make the link only together with the next endpoint port of
// any bridge (see nameslink.go and names.go).
func (k *keeper) namesWait() (bool, error) {
	if k.db.portAdded.Load() || k.namesDetached != 0 || k.datapathType() != DatapathNetdev || !k.db.hasEndpoints() {
		return false, nil
	}
	_, there, err := k.links.ofNames(k.db.namesName)
	return !there, err
}

// errNamesDetached means that ovs-vswitchd has not yet applied the removal of the port.
// When it does, the change of cur_cfg wakes the keeper.
var errNamesDetached = fault.New(fault.Unavailable, "its link was replaced, the port is being taken off the bridge")

func (k *keeper) detachNames(ctx context.Context, port attached) error {
	bridge, ok := k.db.ourBridge()
	if !ok {
		return nil
	}
	_, config, err := k.db.client.Configure(ctx, ovsdb.Mutate("Bridge", ovsdb.Where("_uuid", bridge.UUID),
		ovsdb.Mutation{Column: "ports", Mutator: "delete", Value: port.port.UUID}))
	k.namesDetached = config
	return err
}

// keepNamesPort reconciles the rows of the port.
func (k *keeper) keepNamesPort(ctx context.Context, port attached, there bool) error {
	var ops []ovsdb.Operation
	switch {
	case !there:
		bridge, ok := k.db.ourBridge()
		if !ok {
			return fault.New(fault.Unavailable, "bridge %s is not there", k.config.Bridge)
		}
		here := ovsdb.Where("_uuid", bridge.UUID)
		ops = []ovsdb.Operation{
			ovsdb.Insert("Interface", "interface", ovsdb.Row{"name": k.db.namesName, "ofport_request": namesNumber}),
			ovsdb.Insert("Port", "port", ovsdb.Row{"name": k.db.namesName, "interfaces": ovsdb.UUID("interface")}),
			ovsdb.Mutate("Bridge", here, ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: ovsdb.UUID("port")}),
			ovsdb.WaitEqual(0, "Bridge", here, []string{"name"}, ovsdb.Row{"name": bridge.Name}),
		}
	case port.port.Tag != nil || len(port.port.Trunks) > 0 || port.port.VLANMode != nil:
		ops = append(ops, ovsdb.Update("Port", ovsdb.Where("_uuid", port.port.UUID),
			ovsdb.Row{"tag": []int64{}, "trunks": []int64{}, "vlan_mode": []string{}}))
	case port.link.Error != nil:
		ops = append(ops, ovsdb.Comment("tried again"))
	}
	if len(ops) == 0 {
		return nil
	}
	_, _, err := k.db.client.Configure(ctx, ops...)
	if err == nil && there && port.link.Error != nil {
		err = fault.New(fault.Unavailable, "switch refuses its link: %s", *port.link.Error)
	}
	return err
}

// removeNames removes port, link and namespace of an earlier run.
func (k *keeper) removeNames(ctx context.Context, port attached, attached bool) error {
	if attached {
		if err := k.detachNames(ctx, port); err != nil {
			return err
		}
	}
	link, there, err := k.links.ofNames(k.db.namesName)
	if err != nil || !there {
		return err
	}
	return errors.Join(k.links.remove(link.Attrs().Name), netspace.Delete(k.config.NamesNetNS))
}
