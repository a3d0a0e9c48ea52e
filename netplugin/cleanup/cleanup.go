// Package cleanup leaves a node as it was before netplugin's first start.
//
// What netplugin makes on a node is found by how it looks, not by a list that
// could be lost: bridges by their names, links by their group, the table of
// nftables by its name, limits by what the rows of bridges say. Only the settings of the host were written down before they
// were changed. First nothing new is attached
// any more, last go the files.
//
//	runtime        no more pods: the configuration of their networks, our CNI plugin
//	uplinks        the host gets its addresses and routes back
//	limits         of the connections of tenants, which the kernel would keep; the bridges name them
//	routes         of tunnels, which ovs-vswitchd would keep; the bridges name them as well
//	bridges        with all their ports: pods and tunnels end here
//	links          what was behind the ports, in pods as well
//	namespaces     those of the name server
//	nftables       our table
//	settings       of the host, as they were
//	files          checkpoints, sockets; directories only when they are empty
//
// Each thing is removed for itself: what cannot be removed is reported, everything else
// goes on, and the next cleanup tries again. There is nothing to remove twice. The
// store is not touched: netmaster gives up the endpoints of a node that is gone.
package cleanup

import (
	"context"
	"fmt"
	"io"

	"github.com/contiv/netplugin/utils/fault"
)

// Config says where things are.
type Config struct {
	RunDir    string   // of Open vSwitch's sockets
	Bridges   []string // names of our bridges
	StateDirs []string // directories of ours, with all that is in them
	Files     []string // sockets and the like
	Hollow    []string // directories that manifests have made, where others may have something
	Runtime   []string // what container runtimes find us by
	Memory    string   // directory with the settings of the host; one of StateDirs
	DryRun    bool     // only say what there is
	Out       io.Writer
}

// thing is something of ours on the node.
type thing struct {
	what   string // for people
	remove func(ctx context.Context) error
}

// Run removes what there is. Its error says that something is left; it is of kind
// Conflict if nothing was done, because somebody keeps one of the bridges.
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

// say reports to people; who does not listen is cleaned up for all the same.
func (c Config) say(verb, what string) { _, _ = fmt.Fprintf(c.Out, "%s %s\n", verb, what) }
