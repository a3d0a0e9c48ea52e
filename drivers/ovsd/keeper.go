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

// keeperPause is how long the keeper waits before it tries again what failed.
const keeperPause = 2 * time.Second

// Reasons for a driver to do nothing.
var (
	errElsewhere  = fault.New(fault.Unavailable, "another agent drives this bridge, waiting until it ends")
	errNoDatabase = fault.New(fault.Unavailable, "database of the switch cannot be reached")
)

// keeper makes the rows of our bridge and of its ports right whenever they are
// not. It is one goroutine. When everything was right for the first time, it
// opens the driver for use.
type keeper struct {
	*Driver
	started bool
	flushed int64 // configuration with which ovs-vswitchd has forgotten the flows; 0: none

	namesDetached int64 // configuration with which the name server's port was taken off the bridge; 0: none
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

// look corrects what is wrong. The error says what is still wrong; again tells
// whether time may help where no change of a row will tell.
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
	// One port that cannot be kept must not keep the others waiting.
	problem := errors.Join(k.keepPorts(ctx), k.keepNames(ctx))
	if !k.started {
		k.started = true
		k.db.started.Store(true)
		close(k.ready)
	}
	// Without a trunk the node works, but alone.
	problem = errors.Join(problem, k.trunkFailure(), k.tunnelRoutes.Failure())
	return problem != nil, problem
}

// keepBridge makes the rows of the bridge and its trunk right. If somebody has
// changed the bridge so that its flows are gone, the programmer is told when
// ovs-vswitchd has seen all of it: the change, and what has set it right.
func (k *keeper) keepBridge(ctx context.Context) error {
	ops, flushed := k.wanted().operations(k.db), k.db.flushed.Swap(false)
	if len(ops) > 0 || flushed {
		_, config, err := k.db.client.Configure(ctx, ops...)
		if err != nil {
			if flushed {
				k.db.flushed.Store(true) // another one may have come meanwhile, so never false
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

// keepPorts looks at the endpoint ports that something has happened to; at the
// beginning, at every link that we ever made. What fails is looked at again.
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
	return errors.Join(append(problems, errGone(gone))...)
}

// goneLink says that the link of an endpoint's port is gone.
type goneLink struct{ port, endpoint string }

func (g goneLink) Error() string { return "link of endpoint " + g.endpoint + " is gone" }

// shownGone is how many endpoints without links are named. After a restart of the machine all are without, and each that is removed makes
// another problem of the rest.
const shownGone = 5

func errGone(endpoints []string) error {
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

// chooseDatapath decides which datapath the bridge has. A bridge that is there
// keeps its own: changing it would remake all its ports. A new one gets the
// kernel's where there is one, which can be said once ovs-vswitchd runs.
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

// datapath is the name of the bridge's datapath.
func (d *Driver) datapath() string { return vswitchd.DatapathNamed(d.datapathType()) }

func (d *Driver) wanted() wantedBridge {
	return wantedBridge{name: d.config.Bridge, datapath: d.datapathType(), trunk: d.trunk()}
}

// noteKeeper keeps the keeper's problem for Status, and logs it once. Of a lost
// connection the client itself writes.
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

// keepPort makes the rows of one endpoint port right.
//
// The link in the kernel says what is wanted: it was made by us, has the
// endpoint's id as its alias, and its other end is in the pod. There are two
// ways to get a link of ours without a port. The driver was killed between
// making a link and writing its port: then the pod was never started, and will
// be asked for again or not at all. Or the rows were lost: somebody removed
// the port, or the whole database. One cannot be told from the other, so every
// link that is known to be of an endpoint gets a port. If the endpoint is not
// wanted any more, the agent will find it among Ports and remove it.
//
// A port without a link cannot be helped: its pod's end is gone as well.
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
		k.db.links.add(name) // AddPort or RemovePort is at it, and wakes the keeper at its end
		return nil
	}
	defer unlock()
	if k.numbers.busy(end.number) {
		k.db.links.add(name) // so new that it does not say yet whose it is
		return nil
	}
	// What was found is older than the lock.
	if end, there, err = k.links.find(name); err != nil || !there {
		return err
	}
	return k.correctPort(ctx, end)
}

// correctPort is called with the endpoint's lock.
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
		return nil // nobody can say whose it was
	case end.down:
		log.Info("link set up")
		if err := k.links.setUp(end.name); err != nil {
			return err
		}
	}
	if err := k.links.isolate(end.name); err != nil { // of an earlier version, or set by somebody else
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
	case have.link.OFPort == nil: // nothing tells if none comes
		err = fault.New(fault.Unavailable, "switch has given the link of endpoint %s no number yet", end.endpointID)
	}
	return err
}
