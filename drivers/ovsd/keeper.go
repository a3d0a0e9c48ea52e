package ovsd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/drivers/ovsd/vswitchd"
	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/utils/fault"
)

// keeperPause is the time between two tries of the keeper after an error.
const keeperPause = 2 * time.Second

// Reasons why the driver does not write to the database.
var (
	errElsewhere  = fault.New(fault.Unavailable, "another agent drives this bridge, waiting until it ends")
	errNoDatabase = fault.New(fault.Unavailable, "database of the switch cannot be reached")
)

// keeper reconciles the rows of our bridge and its ports in the switch's database, and the links of
// the ports. It is one goroutine. After the first complete pass it
// closes Driver.ready, for which all calls wait.
type keeper struct {
	*Driver
	started bool
	flushed int64 // next_cfg of the change by which ovs-vswitchd deletes the flows; 0: none

	namesDetached int64 // next_cfg of the change that removed the name server's port from the bridge; 0: none
}

func (d *Driver) keep(ctx context.Context) error {
	k := keeper{Driver: d}
	for {
		again, err := k.look(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.noteKeeper(err)
		var retry <-chan time.Time
		if again {
			retry = time.After(keeperPause)
		}
		select {
		case <-d.keeperDue:
		case <-retry:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look makes one pass. Its error names all remaining faults; again reports whether to retry after keeperPause, as
// no change of a row may wake the keeper.
func (k *keeper) look(ctx context.Context) (again bool, err error) {
	client := k.db.client
	switch {
	case client.Excluded():
		return false, errElsewhere
	case !client.Owner():
		return false, errNoDatabase
	case k.datapathType() == "":
		if err := k.chooseDatapath(); err != nil {
			return true, err
		}
	}
	if !k.started {
		k.numbers.startAfter(k.db)
	}
	if err := k.keepBridge(ctx); err != nil {
		return true, err
	}
	// An error of one port does not stop the others.
	problem := errors.Join(k.keepPorts(ctx), k.keepNames(ctx))
	if !k.started {
		k.started = true
		k.db.started.Store(true)
		close(k.ready)
	}
	// Without a trunk, pods of this node still reach each other.
	problem = errors.Join(problem, k.trunkFailure(), k.tunnelRoutes.Failure())
	return problem != nil, problem
}

// keepBridge reconciles the rows of the bridge and its trunk. If another program has
// changed the bridge in a way that deletes its flows, keepBridge sends flowsLost to the programmer when
// ovs-vswitchd has applied that change and the correction.
func (k *keeper) keepBridge(ctx context.Context) error {
	if _, there := k.db.ourBridge(); !there {
		if err := k.db.taken(k.config.Bridge); err != nil { // by its local port
			return err
		}
	}
	ops, flushed := k.wanted().operations(k.db), k.db.flushed.Swap(false)
	if len(ops) > 0 || flushed {
		_, config, err := k.db.client.Configure(ctx, ops...)
		if err != nil {
			if flushed {
				k.db.flushed.Store(true) // never false here: it may have been set again since Swap
			}
			return err
		}
		k.log.WithField("bridge", k.config.Bridge).Info("bridge set right")
		if flushed {
			k.flushed = config
		}
	}
	if k.flushed != 0 && k.seenConfig(k.flushed) {
		k.flushed = 0
		k.flowsLost.Send()
	}
	return nil
}

// keepPorts reconciles the endpoint ports whose rows or links have changed; in the first pass,
// all links that the driver has made. Ports with errors are tried again in the next pass.
func (k *keeper) keepPorts(ctx context.Context) error {
	names := k.db.links.take()
	if !k.started {
		ends, err := k.links.ours()
		if err != nil {
			return err
		}
		for _, end := range ends {
			names = append(names, end.name)
		}
	}
	var problems []error
	var gone []string // endpoints, with their ports
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		err := k.keepPort(ctx, name)
		var link goneLink
		if errors.As(err, &link) {
			gone = append(gone, link.endpoint+" ("+link.port+")")
		} else if err != nil {
			problems = append(problems, fault.New(fault.KindOf(err), "port %s: %w", name, err))
		}
		if err != nil {
			k.db.links.add(name)
		}
	}
	return errors.Join(append(problems, errLinksGone(gone))...)
}

// goneLink is the error of an endpoint's port whose link does not exist.
type goneLink struct{ port, endpoint string }

func (g goneLink) Error() string { return "link of endpoint " + g.endpoint + " is gone" }

// shownGone limits the endpoints without links that the error names. After a reboot no endpoint has a link, and
// each one that is removed would change the text, which is logged at each change.
const shownGone = 5

func errLinksGone(endpoints []string) error {
	more := ""
	if n := len(endpoints) - shownGone; n > 0 {
		more = fmt.Sprintf(" and of %d more", n)
		endpoints = endpoints[:shownGone]
	}
	if len(endpoints) == 0 {
		return nil
	}
	return fault.New(fault.NotFound, "the link is gone of endpoint %s%s", strings.Join(endpoints, ", "), more)
}

// chooseDatapath chooses the bridge's datapath type, if it is not configured. An existing bridge
// keeps its own: changing it would recreate all its ports. A new one gets the
// kernel's if there is one, which is known when ovs-vswitchd runs.
func (k *keeper) chooseDatapath() error {
	choice := k.config.Datapath
	if bridge, ok := k.db.ourBridge(); ok && choice == DatapathAuto {
		choice = cmpDatapath(bridge.Datapath)
	}
	if choice == DatapathAuto {
		root, _ := k.db.root.Find(func(rootRow) bool { return true })
		if len(root.DatapathTypes) == 0 {
			return fault.New(fault.Unavailable, "ovs-vswitchd has not started yet")
		}
		inKernel, err := k.links.kernelDatapath()
		if err != nil {
			return err
		}
		choice = DatapathNetdev
		if inKernel && slices.Contains(root.DatapathTypes, DatapathSystem) {
			choice = DatapathSystem
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status.Datapath = choice
	return nil
}

func (d *Driver) datapathType() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.status.Datapath
}

// datapath returns the name of the bridge's datapath.
func (d *Driver) datapath() string { return vswitchd.DatapathNamed(d.datapathType()) }

func (d *Driver) wanted() wantedBridge {
	return wantedBridge{name: d.config.Bridge, datapath: d.datapathType(), trunk: d.trunk()}
}

// noteKeeper stores the keeper's error for Status, and logs it when it changes. A lost
// connection is logged by the client of the database.
func (d *Driver) noteKeeper(err error) {
	text := ""
	if err != nil {
		text = fault.New(fault.KindOf(err), "bridge %s: %w", d.config.Bridge, err).Error()
	}
	d.mu.Lock()
	fresh := text != d.keeperFail
	d.keeperFail = text
	d.mu.Unlock()
	if fresh && err != nil && !errors.Is(err, errNoDatabase) {
		d.log.Warn(text)
	}
}

// keepPort reconciles the rows of one endpoint port.
//
// The wanted state follows from the link in the kernel: its alias is the
// endpoint's id, and its other end is in the pod. A link of ours may have no
// port for two reasons. The driver was killed between creating the link and
// writing the rows: the pod has not started then, and the runtime repeats the
// ADD or not. Or the rows were lost: another program removed the port, or the whole
// database. The two look the same, so every link with an endpoint's id gets a
// port. If the endpoint is not wanted any more, the agent finds it in Ports and
// removes it.
//
// A port without a link cannot be repaired: the pod's end of the link is gone, too.
func (k *keeper) keepPort(ctx context.Context, name string) error {
	end, there, err := k.links.find(name)
	if err != nil {
		return err
	}
	if !there {
		if a, ok := k.db.attachedAs(name); ok && a.link.endpoint() != "" {
			return goneLink{name, a.link.endpoint()}
		}
		return nil
	}
	unlock, _ := k.busy.Try(end.endpointID)
	if unlock == nil {
		k.db.links.add(name) // AddPort or RemovePort has the lock, and wakes the keeper when it returns
		return nil
	}
	defer unlock()
	if k.numbers.busy(end.number) {
		k.db.links.add(name) // being created: it may have no alias yet
		return nil
	}
	// The link may have changed before the lock was taken.
	if end, there, err = k.links.find(name); err != nil || !there {
		return err
	}
	return k.correctPort(ctx, end)
}

// correctPort reconciles the port of a link. The caller holds the endpoint's lock.
func (k *keeper) correctPort(ctx context.Context, end owned) error {
	log := k.log.WithField("link", end.name).WithField("endpoint", end.endpointID)
	have, attached := k.db.attachedAs(end.name)
	mtu, err := k.givenMTU(have, end.mtu)
	if err != nil {
		return err
	}
	want := wantedPort{endpointID: end.endpointID, link: end.name, number: end.number, mtu: mtu}
	_, other := k.db.portOf(end.endpointID)
	switch {
	case !attached && k.db.hasInterface(end.name):
		return fault.New(fault.Conflict, "link of endpoint %s is a port of another bridge", end.endpointID)
	case !attached && (end.endpointID == "" || other):
		log.Info("unused link removed")
		return k.links.remove(end.name)
	case !attached:
		log.Info("link without a port: port made anew")
		_, _, err = k.insertPort(ctx, want)
		return err
	case end.endpointID == "":
		return nil // its endpoint is unknown
	case end.down:
		log.Info("link set up")
		if err := k.links.setUp(end.name); err != nil {
			return err
		}
	}
	if err := k.links.isolate(end.name); err != nil { // of an earlier version, or set by another program
		return fmt.Errorf("link %s: %w", end.name, err)
	}
	ops := want.correct(have, end.mtu)
	if len(ops) == 0 {
		return nil
	}
	log.Info("port set right")
	_, _, err = k.db.client.Configure(ctx, append(ops, ovsdb.Comment("port of endpoint "+end.endpointID))...)
	switch {
	case err != nil:
	case have.link.Error != nil:
		err = fault.New(fault.Unavailable, "switch refuses the link of endpoint %s: %s", end.endpointID, *have.link.Error)
	case have.link.OFPort == nil: // if it never comes, no row changes
		err = fault.New(fault.Unavailable, "switch has given the link of endpoint %s no number yet", end.endpointID)
	}
	return err
}
