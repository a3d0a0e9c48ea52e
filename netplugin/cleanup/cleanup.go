// Package cleanup restores a node to the state before netplugin's first start.
//
// What netplugin creates on a node is found by its names and marks, not by a list that could be lost: bridges by
// their names, links by their group, the table of nftables by its name, limits and routes by the rows of bridges.
// Only the settings of the host were recorded before they were changed. The order: first no more pods can be
// attached, files are removed last.
//
//	runtime        no more pods: the configuration of their networks, our CNI plugin
//	uplinks        the host gets its addresses and routes back
//	limits         of the connections of tenants, which the kernel would keep; recorded in the bridges' rows
//	routes         of tunnels, which ovs-vswitchd would keep; recorded in the bridges' rows
//	bridges        with all their ports: pods and tunnels end here
//	links          remaining links of ports, in pods as well
//	namespaces     those of the name server
//	nftables       our table
//	settings       of the host, set back
//	files          checkpoints, sockets; directories only when they are empty
//
// Each item is removed independently: a failure is reported, the others are still removed, and the next cleanup
// tries again. Repeating a cleanup does no harm. The store is not changed: netmaster releases the endpoints of a
// removed node.
package cleanup

import (
	"context"
	"fmt"
	"io"

	"github.com/contiv/netplugin/utils/fault"
)

// Config has the names and paths of what is removed.
type Config struct {
	RunDir    string   // of Open vSwitch's sockets
	Bridges   []string // names of our bridges
	StateDirs []string // our directories, removed with their contents
	Files     []string // sockets and the like
	Hollow    []string // directories created by manifests, which others may use
	Runtime   []string // files by which container runtimes find our plugin
	Memory    string   // directory with the settings of the host; one of StateDirs
	DryRun    bool     // only list what would be removed
	Out       io.Writer
}

// thing is an item to remove.
type thing struct {
	what   string // for messages
	remove func(ctx context.Context) error
}

// Run removes everything that it finds. Its error says that something is left; the error is of kind Conflict if
// nothing was removed because another process manages one of the bridges.
func Run(ctx context.Context, c Config) error {
	if err := checkNoOtherAgent(ctx, c); err != nil {
		return err
	}
	left := 0
	for _, find := range []func(context.Context, Config) ([]thing, error){runtime, uplinks, limits, routes, bridges, links, namespaces, firewall, settings, files} {
		things, err := find(ctx, c)
		if err != nil {
			left++
			c.say("left", err.Error())
		}
		for _, t := range things {
			if c.DryRun {
				c.say("would remove", t.what)
				continue
			}
			if err := t.remove(ctx); err != nil {
				left++
				c.say("left", fmt.Sprintf("%s: %v", t.what, err))
				continue
			}
			c.say("removed", t.what)
		}
	}
	if left > 0 {
		return fault.New(fault.Unavailable, "cleanup: %d things are left, see above; try again when their causes are gone", left)
	}
	return nil
}

// say writes a line to Out; cleanup continues if that fails.
func (c Config) say(verb, what string) { _, _ = fmt.Fprintf(c.Out, "%s %s\n", verb, what) }
