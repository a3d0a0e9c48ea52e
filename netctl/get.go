package netctl

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// getTool lists objects of any kind.
var getTool = tool{
	name: "get", usage: "List objects of a kind, one object, or all", args: "KIND [NAME]", run: doGet,
	flags: func() []cli.Flag {
		return append([]cli.Flag{
			tenantFlag(), allTenantsFlag(),
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "go on and show changes as they happen"},
			&cli.BoolFlag{Name: "watch-only", Usage: "show changes as they happen, not what is there"},
		}, outputFlags(contivmodel.Kind{})...)
	},
	more: "KIND is the name of a command, or a type or segment of the REST interface, singular or plural: " +
		"network, networks, net, endpointGroup, group, policies, rules. NAME is an object's name, for rules POLICY:RULE; " +
		"KIND/TENANT:NAME, as -o name prints it, is understood too. KIND may also be endpoint. `netctl get all` lists the objects of a tenant, " +
		"with -A those of all tenants and those that belong to none.",
}

func doGet(s *session) error {
	watch := s.cmd.Bool("watch") || s.cmd.Bool("watch-only")
	if s.cmd.Args().First() == "all" {
		if watch || s.cmd.Args().Len() > 1 {
			return usageError{message: "get all: one kind at a time can be watched or selected by name"}
		}
		return getAll(s)
	}
	if word, id, _ := strings.Cut(s.cmd.Args().First(), "/"); meansEndpoints(word) {
		if watch {
			return usageError{message: "get endpoints: they can be listed, not watched"}
		}
		return getEndpoints(s, cmp.Or(id, s.cmd.Args().Get(1)))
	}
	t, err := s.targetOf(s.cmd.Args())
	if err != nil {
		return err
	}
	c := s.about(t.kind)
	switch {
	case watch:
		return c.watch(t.key)
	case t.key == "":
		objects, err := c.list()
		if err != nil {
			return err
		}
		return c.print(objects, c.fullColumns())
	}
	o, err := s.client.Get(s.ctx, t.kind, t.key)
	if err != nil {
		return s.absent(err, t.kind, t.key)
	}
	if format := s.format(); format == formatJSON || format == formatYAML {
		return s.printDocument(o)
	}
	return c.print([]contivmodel.Object{o}, c.fullColumns())
}

// getAll lists every kind that has objects, and names those that the caller may not read.
func getAll(s *session) error {
	all := []contivmodel.Object{}
	format := s.format()
	some := false
	for _, kind := range orderedKinds() {
		if !scoped(kind) && !s.cmd.Bool("all") {
			continue
		}
		c := s.about(kind)
		objects, err := c.list()
		if fault.Is(err, fault.Denied) && s.cmd.Bool("all") {
			fmt.Fprintf(s.errOut, "warning: %s are not shown: %v\n", kind.Segment, err)
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case format == formatJSON || format == formatYAML:
			all = append(all, objects...)
			continue
		case len(objects) == 0:
			continue
		}
		some = true
		if format == formatTable || format == formatWide {
			if _, err := fmt.Fprintf(s.out, "%s:\n", kind.Segment); err != nil {
				return err
			}
		}
		if err := c.print(objects, c.fullColumns()); err != nil {
			return err
		}
	}
	switch {
	case format == formatJSON || format == formatYAML:
		return s.printDocument(all)
	case !some && !s.cmd.Bool("all") && (format == formatTable || format == formatWide):
		fmt.Fprintf(s.errOut, "tenant %s has no objects\n", s.tenant())
	}
	return nil
}

// fullColumns returns the columns of a listing that may have objects of several tenants and policies. For rules,
// the usual columns omit what rule-ls has in its arguments and headings.
func (c *call) fullColumns() []column {
	if c.kind.Type == "rule" {
		return c.ruleColumns("tenantName", "policyName", "direction")
	}
	return c.columns(c.kind.Columns())
}
