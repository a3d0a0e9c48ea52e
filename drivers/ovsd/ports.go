package ovsd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// cleanupTime limits the undo of a failed AddPort.
const cleanupTime = 5 * time.Second

// AddPort makes an endpoint's veth pair and switch port, with the pod's end in the network namespace of descriptor
// podNetNS. It returns the existing port if the endpoint has one.
func (d *Driver) AddPort(ctx context.Context, encap pipeline.Encap, endpointID string, podNetNS int) (drivers.Port, error) {
	if err := d.config.serves(encap); err != nil {
		return drivers.Port{}, fault.New(fault.KindOf(err), "port of endpoint %q: %w", endpointID, err)
	}
	port, err := d.addPort(ctx, endpointID, podNetNS)
	if err != nil {
		return drivers.Port{}, fault.New(kindOf(err), "port of endpoint %q: %w", endpointID, err)
	}
	return port, nil
}

// kindOf returns the kind of an error; an ended context is fault.Unavailable, so that the caller retries.
func kindOf(err error) fault.Kind {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fault.Unavailable
	}
	return fault.KindOf(err)
}

func (d *Driver) addPort(ctx context.Context, endpointID string, podNetNS int) (drivers.Port, error) {
	if endpointID == "" {
		return drivers.Port{}, fault.New(fault.Invalid, "an id is needed")
	}
	ctx, done, err := d.calls.enter(ctx)
	if err != nil {
		return drivers.Port{}, err
	}
	defer done()
	if err := d.waitReady(ctx); err != nil {
		return drivers.Port{}, err
	}
	unlock, err := d.lockEndpoint(ctx, endpointID)
	if err != nil {
		return drivers.Port{}, err
	}
	defer unlock()
	port, found, err := d.findPort(ctx, endpointID)
	if found || err != nil {
		return port, err
	}
	for range ignoredTries {
		if port, err = d.makePort(ctx, endpointID, podNetNS); !errors.Is(err, errIgnored) {
			break
		}
		d.log.WithError(err).WithField("endpoint", endpointID).Warn("making the port anew")
	}
	return port, err
}

// lockEndpoint locks an endpoint's port against the keeper and other calls.
// unlock wakes the keeper, which skips locked ports.
func (d *Driver) lockEndpoint(ctx context.Context, endpointID string) (unlock func(), err error) {
	free, err := d.busy.Lock(ctx, endpointID)
	if err != nil {
		return nil, err
	}
	return func() {
		free()
		d.keeperDue.Send()
	}, nil
}

// errIgnored means that ovs-vswitchd has applied the configuration with a port, but has written neither a
// number nor an error. It does not check whether its write of a number
// succeeded, and does not repeat it; only a new port gets another.
var errIgnored = errors.New("switch gives it no number")

// ignoredTries limits how often such a port is recreated.
const ignoredTries = 3

// FindPort returns the port of an endpoint, once the switch has given it a number. It fails with fault.NotFound if
// there is none.
func (d *Driver) FindPort(ctx context.Context, endpointID string) (drivers.Port, error) {
	port, err := d.existingPort(ctx, endpointID)
	if err != nil {
		return drivers.Port{}, fault.New(kindOf(err), "port of endpoint %q: %w", endpointID, err)
	}
	return port, nil
}

func (d *Driver) existingPort(ctx context.Context, endpointID string) (drivers.Port, error) {
	if err := d.waitReady(ctx); err != nil {
		return drivers.Port{}, err
	}
	unlock, err := d.lockEndpoint(ctx, endpointID)
	if err != nil {
		return drivers.Port{}, err
	}
	defer unlock()
	port, _, err := d.lookup(ctx, endpointID)
	return port, err
}

// lookup returns an endpoint's port, once the switch has given it a number. Without a port, or without its link,
// the error is fault.NotFound; in the second case orphan is the port.
func (d *Driver) lookup(ctx context.Context, endpointID string) (port drivers.Port, orphan *attached, err error) {
	have, ok := d.db.portOf(endpointID)
	if !ok {
		return drivers.Port{}, nil, fault.New(fault.NotFound, "there is none")
	}
	mtu, ok, err := d.links.mtu(have.link.Name)
	if err != nil {
		return drivers.Port{}, nil, err
	}
	if !ok {
		return drivers.Port{}, &have, fault.New(fault.NotFound, "its link %s is gone", have.link.Name)
	}
	if mtu, err = d.givenMTU(have, mtu); err != nil {
		return drivers.Port{}, nil, err
	}
	row, err := d.waitNumber(ctx, have.link.UUID, 0)
	if err != nil {
		return drivers.Port{}, nil, err
	}
	return attached{port: have.port, link: row}.describe(mtu), nil, nil
}

// findPort returns the port of an endpoint, if there is one. It removes a port whose link is gone: the link
// was deleted with the namespace of the pod.
func (d *Driver) findPort(ctx context.Context, endpointID string) (port drivers.Port, found bool, err error) {
	port, orphan, err := d.lookup(ctx, endpointID)
	switch {
	case orphan != nil:
		return drivers.Port{}, false, d.deletePort(ctx, *orphan)
	case fault.Is(err, fault.NotFound):
		return drivers.Port{}, false, nil
	}
	return port, err == nil, err
}

// makePort makes the link and the rows, and waits for the number. After an error it undoes them.
func (d *Driver) makePort(ctx context.Context, endpointID string, podNetNS int) (port drivers.Port, err error) {
	mtu, err := d.endpointMTU()
	if err != nil {
		return drivers.Port{}, err
	}
	number, hostLink, err := d.makeLink(endpointID, mtu, podNetNS)
	if err != nil {
		return drivers.Port{}, err
	}
	defer d.numbers.release(number)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.undoPort(ctx, endpointID, hostLink))
		}
	}()
	row, config, err := d.insertPort(ctx, wantedPort{endpointID: endpointID, link: hostLink, number: number, mtu: mtu})
	if err != nil {
		return drivers.Port{}, err
	}
	link, err := d.waitNumber(ctx, row, config)
	if err != nil {
		return drivers.Port{}, err
	}
	return attached{link: link}.describe(mtu), nil
}

// makeLink makes a link, named by the next number with free names.
func (d *Driver) makeLink(endpointID string, mtu, podNetNS int) (number uint32, name string, err error) {
	for {
		if number, err = d.numbers.take(d.db); err != nil {
			return 0, "", err
		}
		name = hostLinkName(number)
		if err = d.links.create(name, endpointID, mtu, podNetNS); err == nil {
			return number, name, nil
		}
		d.numbers.release(number)
		if !errors.Is(err, errTaken) {
			return 0, "", err
		}
	}
}

// insertPort writes the rows of a port. It returns the UUID of the interface and the
// next_cfg that ovs-vswitchd will copy to cur_cfg when it has applied them.
func (d *Driver) insertPort(ctx context.Context, want wantedPort) (ovsdb.UUID, int64, error) {
	bridge, ok := d.db.ourBridge()
	if !ok {
		return "", 0, fault.New(fault.Unavailable, "bridge %s is not there", d.config.Bridge)
	}
	here := ovsdb.Where("_uuid", bridge.UUID)
	ops := append(want.insert(),
		ovsdb.Mutate("Bridge", here, ovsdb.Mutation{Column: "ports", Mutator: "insert", Value: ovsdb.UUID("port")}),
		// Without this, if the bridge is gone, the port would be garbage-collected and no error returned.
		ovsdb.WaitEqual(0, "Bridge", here, []string{"name"}, ovsdb.Row{"name": bridge.Name}))
	last := map[string]string{idLastNumber: strconv.FormatUint(uint64(d.numbers.latest()), 10)}
	results, config, err := d.db.client.Configure(ctx, append(ops, setKeys("Bridge", here, "external_ids", bridge.ExternalIDs, last)...)...)
	if err != nil {
		return "", 0, err
	}
	return results[0].UUID, config, nil
}

// waitNumber waits until ovs-vswitchd has written the port's number or an error.
// config, unless 0, is the next_cfg of a configuration with the port: once that
// is applied, no number will come.
func (d *Driver) waitNumber(ctx context.Context, id ovsdb.UUID, config int64) (row interfaceRow, err error) {
	err = d.db.client.Wait(ctx, func() (bool, error) {
		var ok bool
		if row, ok = d.db.interfaces.Get(id); !ok {
			return false, fault.New(fault.Conflict, "somebody removed it from the switch")
		}
		switch {
		case row.number() != 0:
			return true, nil
		case row.Error != nil:
			return false, fault.New(fault.Internal, "switch refuses link %s: %s", row.Name, *row.Error)
		case row.OFPort != nil:
			return false, fault.New(fault.Internal, "switch refuses link %s", row.Name)
		case config != 0 && d.seenConfig(config):
			return false, fault.New(fault.Unavailable, "link %s: %w", row.Name, errIgnored)
		}
		return false, nil
	})
	if err != nil && fault.As(err) == nil {
		err = fmt.Errorf("no OpenFlow number: %w", err)
	}
	return row, err
}

func (d *Driver) seenConfig(config int64) bool {
	root, ok := d.db.root.Find(func(rootRow) bool { return true })
	return ok && root.CurCfg >= config
}

// undoPort removes the rows and links of a port, also if ctx has
// ended, and also if it is unknown whether the rows were written.
func (d *Driver) undoPort(ctx context.Context, endpointID, hostLink string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	err := d.db.client.Wait(ctx, func() (bool, error) { return d.db.client.Connected(), nil })
	if err == nil {
		// The response to this transaction comes after the updates of earlier ones, whose responses may not have
		// been awaited.
		_, err = d.db.client.Transact(ctx, ovsdb.Select("Open_vSwitch", ovsdb.All(), "cur_cfg"))
	}
	if have, ok := d.db.portOf(endpointID); ok && err == nil {
		err = d.deletePort(ctx, have)
	}
	return errors.Join(err, d.links.remove(hostLink))
}

// RemovePort removes an endpoint's port and link.
func (d *Driver) RemovePort(ctx context.Context, endpointID string) error {
	if err := d.removePort(ctx, endpointID); err != nil {
		return fault.New(kindOf(err), "port of endpoint %q: %w", endpointID, err)
	}
	return nil
}

func (d *Driver) removePort(ctx context.Context, endpointID string) error {
	ctx, done, err := d.calls.enter(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := d.waitReady(ctx); err != nil {
		return err
	}
	unlock, err := d.lockEndpoint(ctx, endpointID)
	if err != nil {
		return err
	}
	defer unlock()
	if !d.db.client.Connected() {
		return errNoDatabase
	}
	have, ok := d.db.portOf(endpointID)
	if !ok {
		return d.removeLinksOf(endpointID)
	}
	return errors.Join(d.deletePort(ctx, have), d.links.remove(have.link.Name))
}

// removeLinksOf removes links of an endpoint that has no port.
func (d *Driver) removeLinksOf(endpointID string) error {
	ends, err := d.links.ours()
	if err != nil {
		return err
	}
	for _, end := range ends {
		if end.endpointID == endpointID {
			err = errors.Join(err, d.links.remove(end.name))
		}
	}
	return err
}

// deletePort removes a port from the bridge; ovsdb-server deletes rows that are not
// referenced.
func (d *Driver) deletePort(ctx context.Context, a attached) error {
	bridge, ok := d.db.ourBridge()
	if !ok {
		return nil
	}
	_, _, err := d.db.client.Configure(ctx, ovsdb.Mutate("Bridge", ovsdb.Where("_uuid", bridge.UUID),
		ovsdb.Mutation{Column: "ports", Mutator: "delete", Value: a.port.UUID}))
	return err
}

// PortUsed reports whether the other end of the endpoint's link is in an existing network namespace other than the
// host's.
func (d *Driver) PortUsed(endpointID string) (bool, error) {
	if have, ok := d.db.portOf(endpointID); ok {
		return d.links.used(have.link.Name)
	}
	ends, err := d.links.ours() // the row may be gone, but not the link
	if err != nil {
		return false, err
	}
	for _, end := range ends {
		if end.endpointID != endpointID {
			continue
		}
		if used, err := d.links.used(end.name); used || err != nil {
			return used, err
		}
	}
	return false, nil
}

// Ports lists the endpoint ports in the switch, also those without a link.
func (d *Driver) Ports() []drivers.Port {
	var list []drivers.Port
	for _, a := range d.db.endpointPorts() {
		list = append(list, a.describe(a.link.mtu()))
	}
	slices.SortFunc(list, func(a, b drivers.Port) int { return strings.Compare(a.EndpointID, b.EndpointID) })
	return list
}
