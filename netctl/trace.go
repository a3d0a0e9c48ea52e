package netctl

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/hops"
)

var traceTool = tool{
	name: "trace", usage: "Tell what the switches do with a packet, table by table, and who drops it", args: "FROM TO", run: doTrace,
	flags: func() []cli.Flag {
		return []cli.Flag{
			&cli.IntFlag{Name: "port", Aliases: []string{"p"}, Value: 80, Usage: "port that it is for"},
			&cli.StringFlag{Name: "protocol", Value: "tcp", Usage: "tcp, udp, sctp or icmp"},
			&cli.StringFlag{Name: "source", Usage: "address that it says it comes from, if not the sender's own"},
			outputFlag(documentFormats), &cli.BoolFlag{Name: "no-headers", Usage: "leave out the headings of tables"},
		}
	},
	more: "FROM is an endpoint by its id, the id or name of its container, or NAMESPACE/POD; TO is one, too, or an address. The switch of FROM's node is asked " +
		"and, if the packet goes there, that of the receiver's; nothing is sent. It is the first packet of a new connection. Exit code 0: it leaves, or is answered; " +
		"10: it is dropped; 11: a group or the agent decides, about which the switch does not tell. Of a service all providers are named: trace the packet to one of them.",
}

func doTrace(s *session) error {
	args := s.cmd.Args()
	to := args.Get(1)
	trace, err := s.client.Trace(s.ctx, inspected(args.Get(0)), inspected(to), strings.ToLower(s.cmd.String("protocol")), s.cmd.Int("port"), s.cmd.String("source"))
	if err != nil {
		return notAttached(err, args.Get(0), to)
	}
	if s.format() != formatTable {
		err = s.printDocument(trace)
	} else {
		err = s.printTrace(trace)
	}
	if err != nil {
		return err
	}
	return tracedCode(trace)
}

// tracedCode returns the exit code for a trace.
func tracedCode(t contivmodel.Trace) error {
	if len(t.Hops) == 0 {
		return outcomeCode(exitUndecided)
	}
	switch t.Hops[len(t.Hops)-1].Exit {
	case hops.Dropped:
		return outcomeCode(exitDropped)
	case hops.Unknown, hops.Silent, hops.Tunnel: // the next node is unknown
		return outcomeCode(exitUndecided)
	}
	return nil
}

func (s *session) printTrace(t contivmodel.Trace) error {
	p := &page{session: s}
	var rows [][]string
	for _, hop := range t.Hops {
		node := hop.Node
		for _, step := range hop.Steps {
			rows = append(rows, []string{printable(node), printable(step.Table), printable(step.Of), printable(step.Does)})
			node = ""
		}
	}
	title := fmt.Sprintf("%s port %d", t.Protocol, t.Port)
	if t.Protocol == "icmp" {
		title = "icmp echo request"
	}
	if t.Source != "" {
		title += " from " + t.Source
	}
	p.table(title, []string{"Node", "Table", "Of", "Does"}, rows)
	for _, hop := range t.Hops {
		p.printf("\n%s\n", printable(exitWords(hop)))
	}
	return p.err
}

// exitWords describes how a packet leaves a node.
func exitWords(h hops.Hop) string {
	words := map[string]string{
		hops.Delivered: "DELIVERED to " + h.To, hops.Answered: "ANSWERED by the switch itself",
		hops.Tunnel: "TO " + h.To, hops.Uplink: "TO the physical network", hops.Host: "TO the network stack of the host",
		hops.Unknown: "UNDECIDED: a group or the agent decides", hops.Silent: "UNDECIDED: no answer", hops.Dropped: "DROPPED",
	}[h.Exit] + " on " + h.Node
	if h.Exit == hops.Host && h.To != "" {
		words += ", which leads to " + h.To
	}
	if h.Reason != "" {
		words += fmt.Sprintf(": %s, in %s", h.Reason, h.Table)
		if h.Of != "" {
			words += " by " + h.Of
		}
		words += ". " + h.Means
	}
	if h.Note != "" {
		words += " (" + h.Note + ")"
	}
	return words
}
