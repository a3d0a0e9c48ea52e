// Package uplink keeps the bridge that joins a node to its physical network.
//
//	pods --- contivVlanBridge --- uplinkPatch = vlanPatch --- contivUplink --- eth1
//	                                                            |          \-- eth2
//	                                                        local port
//
// The links to the physical network are ports of a bridge of their own, which is an ordinary learning switch: it has no
// flows of ours and no controller, and its fail mode is standalone. So a bond works as Open vSwitch has it (only action
// NORMAL knows bonds), and the host, whose addresses on the links move to the local port (moving.go), keeps its network
// whatever becomes of netplugin. Pods are behind a patch port, which costs nothing: Open vSwitch resolves it when it
// computes a datapath flow.
//
// Two designs were left: the links as ports of contivVlanBridge, where a bond is a
// list of ports that each flow has to choose from, and where the host's packets need
// flows of ours; and a bond of the host's kernel, which the userspace datapath sees
// only one packet at a time.
//
// A link that does not exist, is in another bridge, or has vanished is left out, and
// reported; the others are used. Columns of rows that are not named here are left unchanged.
package uplink

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/ovsdb"
	"github.com/contiv/netplugin/utils/announce"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/notify"
)

// Names of rows.
const (
	DefaultBridge   = "contivUplink"
	DefaultStateDir = "/var/lib/contiv"
	PatchPort       = "uplinkPatch" // on the bridge of the pods
	PeerPort        = "vlanPatch"   // its peer, on ours
	uplinkPort      = "uplinkPort"  // the link, or the bond of the links
)

// pause is the time between retries, and from a change of routes to its processing.
const pause = 2 * time.Second

// Config selects the links to join.
type Config struct {
	RunDir   string          // directory of ovsdb-server's socket
	Bridge   string          // name of the bridge; empty: DefaultBridge
	Serves   string          // the bridge at the other end of the patch, with the same datapath
	Links    []string        // one, or those of a bond
	Mode     BondMode        // of the bond; empty: DefaultBondMode
	NetNS    *netns.NsHandle // namespace of the links; nil: the process's own
	StateDir string          // directory of the record; empty: DefaultStateDir
	Log      *logrus.Entry

	Step func(what string) // called before each step that affects the host; may be nil
}

// Bridge maintains the bridge.
type Bridge struct {
	config Config
	log    *logrus.Entry
	db     *database
	links  *links
	news   notify.Signal // something has changed
	back   notify.Signal // a link works again
	other  notify.Signal // addresses of the host have another MAC

	// Used by the keeper only.
	sights sights
	silent silence
	taken  map[string]int64  // configuration in which a link was removed from the bridge
	added  map[string]int64  // configuration in which a link became a port, until it is up in it
	moved  record            // what was moved from the host's links to the local port
	before []string          // ports before a change whose answer was lost
	busy   map[string]seenAt // ports whose addresses or routes may still change
	local  int64             // configuration in which the local port is complete
	whose  int               // index of the local port that this is about
	told   string            // MAC of the local port that was announced; empty: not for all its addresses

	mu      sync.Mutex
	given   []string // links that have their addresses back
	problem string   // the present problem
	states  map[string]string
}

// Reasons to do nothing.
var (
	errElsewhere  = fault.New(fault.Unavailable, "another agent keeps this bridge, waiting until it ends")
	errNoDatabase = fault.New(fault.Unavailable, "database of the switch cannot be reached")
)

// New returns a keeper; Run starts it.
func New(config Config) (*Bridge, error) {
	if len(config.Links) == 0 {
		return nil, fault.New(fault.Invalid, "bridge %s: no uplink is named", config.Bridge)
	}
	return open(config)
}

func open(config Config) (*Bridge, error) {
	if config.Bridge == "" {
		config.Bridge = DefaultBridge
	}
	if config.StateDir == "" {
		config.StateDir = DefaultStateDir
	}
	if config.Log == nil {
		config.Log = logrus.WithField("component", "uplink")
	}
	if config.Mode == "" {
		config.Mode = DefaultBondMode
	}
	if config.Step == nil {
		config.Step = func(string) {}
	}
	b := &Bridge{
		config: config, log: config.Log, news: notify.New(), back: notify.New(), other: notify.New(), sights: sights{},
		silent: silence{}, taken: map[string]int64{}, added: map[string]int64{}, busy: map[string]seenAt{},
	}
	var err error
	if b.links, err = newLinks(config.NetNS, config.Step); err != nil {
		return nil, err
	}
	b.db = newDatabase()
	b.db.client, err = ovsdb.New(ovsdb.Config{
		Target: "unix:" + filepath.Join(config.RunDir, "db.sock"), Lock: drivers.LockName(config.Bridge), Log: config.Log, OnUpdate: b.news.Send,
	}, b.db.root, b.db.bridges, b.db.ports, b.db.interfaces)
	if err != nil {
		b.links.close()
		return nil, err
	}
	return b, nil
}

// Run maintains the bridge until ctx is done. The bridge stays.
func (b *Bridge) Run(ctx context.Context) error {
	defer b.links.close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.db.client.Run(ctx) })
	group.Go(func() error { return b.links.watch(ctx, b.log, b.news.Send) })
	group.Go(func() error { return b.links.watchRoutes(ctx, b.log, b.news.Send) })
	group.Go(func() error { return announce.InRounds(ctx, b.other, b.announce) })
	group.Go(func() error { return b.keep(ctx) })
	return group.Wait()
}

// Problem returns the present problem, "" if none.
func (b *Bridge) Problem() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.problem
}

// States returns the problem of each link, "" if none. The map is replaced, not changed.
func (b *Bridge) States() map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states
}

// Returned receives a value, for one reader, after a link works again that did not work, was not
// answered by LACP, or had vanished.
func (b *Bridge) Returned() <-chan struct{} { return b.back }

// keep reconciles after each change, and periodically while there is a problem or something to wait for.
func (b *Bridge) keep(ctx context.Context) error {
	for {
		err := b.reconcile(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.note(err)
		var again <-chan time.Time
		if err != nil || len(b.busy) > 0 || len(b.silent) > 0 {
			again = time.After(pause)
		}
		select {
		case <-b.news:
		case <-again:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// note stores an error for Problem, and logs it when it changes. Lost connections are logged by the client.
func (b *Bridge) note(err error) {
	text := ""
	if err != nil {
		text = "bridge " + b.config.Bridge + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	b.mu.Lock()
	fresh := text != b.problem
	b.problem = text
	b.mu.Unlock()
	switch {
	case !fresh || errors.Is(err, errNoDatabase):
	case err != nil:
		b.log.Warn(text)
	default:
		b.log.WithField("uplinks", b.config.Links).Info("uplinks are right")
	}
}

// reconcile makes one pass over the rows. Its error names all remaining problems.
func (b *Bridge) reconcile(ctx context.Context) error {
	switch {
	case b.db.client.Excluded():
		return errElsewhere
	case !b.db.client.Owner():
		return errNoDatabase
	}
	served, ok := b.db.bridge(b.config.Serves)
	if !ok {
		return nil // it is being created; a notification follows
	}
	if b.moved.Links == nil {
		if err := b.recall(); err != nil {
			return err
		}
	}
	usable, states := b.usable()
	usable, strange, err := b.noteHost(usable)
	maps.Copy(states, strange)
	problems := append(slices.Collect(maps.Values(states)), err)
	want, err := b.wantedRows(served.Datapath, usable)
	if err != nil {
		return err
	}
	if taken := want.taken(b.db); taken != nil {
		if _, there := b.db.bridge(b.config.Bridge); !there {
			return taken // a link with its name is somebody else's
		}
		problems = append(problems, taken) // the host goes on with what is there
	} else if ops := want.operations(b.db); len(ops) > 0 {
		notUp, err := b.configure(ctx, want, ops)
		if err != nil {
			return err
		}
		problems = append(problems, notUp)
	}
	if err := b.newLocal(ctx); err != nil {
		return err
	}
	problems = append(problems, b.setLinksUp())
	problems = append(problems, b.moveHost(b.db.opened(b.config.Bridge, want.links)))
	problems = append(problems, b.releasePlain(), b.announceLocal())
	for name, err := range b.failures() {
		states[name] = err
		problems = append(problems, err)
	}
	b.noteStates(states)
	return errors.Join(problems...)
}

// recall finds out what an earlier run, or a transaction with a lost answer, has left.
func (b *Bridge) recall() (err error) {
	bridge, _ := b.db.bridge(b.config.Bridge)
	if b.moved, err = b.config.readRecord(bridge.OtherConfig["hwaddr"]); err != nil {
		return err
	}
	if err := b.followRenamed(); err != nil {
		b.moved = record{} // read again
		return err
	}
	b.local = b.db.rootRow().NextCfg // an earlier run may have written it a moment ago
	b.noteMembers(b.before, b.db.memberNames(b.config.Bridge), b.local)
	b.before = nil
	return nil
}

// wantedRows returns the rows that the bridge should have, with the links that can be its ports now.
func (b *Bridge) wantedRows(datapath string, links []string) (wanted, error) {
	hardware, err := b.wantedMAC()
	if err != nil {
		return wanted{}, err
	}
	want := wanted{name: b.config.Bridge, datapath: datapath, links: links, hardware: hardware, former: b.moved.Former}
	if len(b.config.Links) > 1 {
		want.mode = b.config.Mode
	}
	if want.mustRemake(b.db) {
		want.links = nil // a member is removed and added in two transactions: ovs-vswitchd has to see the removal
	}
	return want, nil
}

// configure writes the rows. notUp names the future ports that could not be set up before.
func (b *Bridge) configure(ctx context.Context, want wanted, ops []ovsdb.Operation) (notUp, err error) {
	before, local := b.db.memberNames(b.config.Bridge), want.touchesLocal(b.db)
	coming := slices.DeleteFunc(slices.Clone(want.links), func(name string) bool { return slices.Contains(before, name) })
	if err := b.notePlain(coming); err != nil {
		return nil, err
	}
	for _, name := range coming { // first, so that a bond starts with all its links
		notUp = errors.Join(notUp, b.links.setUp(name))
	}
	if local {
		if err := b.recordLocalPort(); err != nil {
			return notUp, err
		}
	}
	b.config.Step("set rows")
	_, config, err := b.db.client.Configure(ctx, ops...)
	if err != nil {
		b.moved.Links, b.before = nil, before // it may be committed all the same: the next pass reads the result
		return notUp, err
	}
	if local {
		b.local = config
	}
	b.log.WithField("bridge", b.config.Bridge).WithField("links", want.links).Info("bridge set right")
	b.noteMembers(before, want.links, config)
	return notUp, nil
}

// noteMembers records the configuration in which links are removed and added as ports.
func (b *Bridge) noteMembers(before, now []string, config int64) {
	for _, name := range before {
		if !slices.Contains(now, name) {
			b.taken[name] = config
			delete(b.added, name)
		}
	}
	for _, name := range now {
		if !slices.Contains(before, name) {
			b.added[name] = config
		}
	}
}

// setLinksUp sets links up once, after ovs-vswitchd has made them ports, and after a start. When ovs-vswitchd opens or closes a
// link, it reads all flags, changes one and writes all; if the link was set up in between, it is down again. A port that is set
// down later stays down until netplugin restarts: an operator may have done it.
func (b *Bridge) setLinksUp() error {
	var problems []error
	for name, config := range b.added {
		if b.db.seen() < config {
			continue // a notification follows when it has
		}
		link, there, err := b.links.state(name)
		if err == nil && there && link.down {
			err = b.links.setUp(name)
		}
		if err == nil {
			delete(b.added, name)
		}
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// noteStates stores the states of all links for States.
func (b *Bridge) noteStates(wrong map[string]error) {
	states := map[string]string{}
	for _, name := range b.config.Links {
		if states[name] = ""; wrong[name] != nil {
			states[name] = wrong[name].Error()
		}
	}
	b.mu.Lock()
	b.states = states
	b.mu.Unlock()
}
