package netctl

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/utils/fault"
)

// action is the implementation of a verb, with the flags common to all such verbs.
type action struct {
	do    func(*call) error
	flags func(contivmodel.Kind) []cli.Flag
}

// The actions of the table.
var (
	create      = action{func(c *call) error { return doCreate(c, client.Post) }, quietFlags}
	createNew   = action{func(c *call) error { return doCreate(c, client.Create) }, quietFlags}
	set         = action{doSet, quietFlags}
	update      = action{doUpdate, quietFlags}
	remove      = action{doRemove, removeFlags}
	list        = action{doList, listFlags}
	listRules   = action{doListRules, outputFlags}
	listMembers = action{doListMembers, memberFlags}
	info        = action{doInfo, infoFlags}
	inspect     = action{doInspect, inspectFlags}

	listEndpoints = action{doListEndpoints, endpointFlags}
)

// doCreate posts an object made from arguments and flags.
func doCreate(c *call, post func(context.Context, *client.Client, contivmodel.Object) error) error {
	o := c.kind.New()
	if err := c.fill(o, true); err != nil {
		return err
	}
	if c.verb.check != nil {
		if err := c.verb.check(c, o); err != nil {
			return err
		}
	}
	if err := post(c.ctx, c.client, o); err != nil {
		return err
	}
	return c.result(o)
}

// doSet changes the given fields of the one object of a kind, and creates it if it does not exist.
func doSet(c *call) error {
	return c.change(c.singleton(), func(o contivmodel.Object, absent error) error {
		if err := c.kind.KeyFields()[0].Set(o, c.singleton()); err != nil {
			return err
		}
		return c.fill(o, absent != nil)
	})
}

// doUpdate changes the given fields of an existing object.
func doUpdate(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	return c.change(key, func(o contivmodel.Object, absent error) error {
		if absent != nil {
			return c.absent(absent, c.kind, key)
		}
		return c.fill(o, false)
	})
}

// change stores a changed object, and prints the result.
func (c *call) change(key string, how func(o contivmodel.Object, absent error) error) error {
	var changed contivmodel.Object
	err := c.client.Change(c.ctx, c.kind, key, func(o contivmodel.Object, absent error) error {
		changed = o
		return how(o, absent)
	})
	if err != nil {
		return err
	}
	return c.result(changed)
}

// singleton returns the key of the one object of a kind: the only possible value of its name.
func (c *call) singleton() string { return c.kind.KeyFields()[0].OneOf[0] }

// key returns the key of the object that the arguments name.
func (c *call) key() (string, error) {
	switch {
	case c.kind.Type == "":
		return c.cmd.Args().First(), nil
	case len(c.verb.args) == 0:
		return c.singleton(), nil
	}
	o := c.kind.New()
	err := c.fill(o, false)
	return o.ModelKey(), err
}

func doRemove(c *call) error {
	o := c.kind.New()
	if err := c.fill(o, false); err != nil {
		return err
	}
	err := c.client.Delete(c.ctx, c.kind, o.ModelKey())
	if isAbsent(err) && c.cmd.Bool("ignore-not-found") {
		return nil
	}
	if err != nil {
		return c.absent(err, c.kind, o.ModelKey())
	}
	return c.result(o)
}

func doList(c *call) error {
	objects, err := c.list()
	if err != nil {
		return err
	}
	return c.print(objects, c.columns(c.kind.Columns()))
}

// list returns the objects that the flags select: of one tenant, or of all.
func (c *call) list() ([]contivmodel.Object, error) {
	if !scoped(c.kind) || c.cmd.Bool("all") {
		return c.client.List(c.ctx, c.kind)
	}
	if err := c.requireTenant(c.tenant()); err != nil {
		return nil, err
	}
	objects, err := c.client.ListTenant(c.ctx, c.kind, c.tenant())
	return c.having(objects, "tenantName", c.tenant()), err
}

// requireTenant returns an error if a tenant does not exist, so that a misspelt name does not look like an empty
// list.
func (s *session) requireTenant(tenant string) error {
	_, err := client.Get[contivmodel.Tenant](s.ctx, s.client, tenant)
	return s.absent(err, kindOf("tenant"), tenant)
}

// having selects the objects with a value in a field.
func (c *call) having(objects []contivmodel.Object, name, value string) []contivmodel.Object {
	f, _ := c.kind.Field(name)
	selected := []contivmodel.Object{}
	for _, o := range objects {
		if f.Value(o) == value {
			selected = append(selected, o)
		}
	}
	return selected
}

// doInfo prints the one object of a kind as lines of heading and value.
func doInfo(c *call) error {
	objects, err := c.client.List(c.ctx, c.kind)
	if err != nil {
		return err
	}
	if c.format() != formatTable {
		return c.print(objects, c.columns(c.kind.Columns()))
	}
	for _, o := range objects {
		for _, col := range c.columns(c.kind.Columns()) {
			if _, err := fmt.Fprintf(c.out, "%s: %s\n", col.heading, col.cell(o)); err != nil {
				return err
			}
		}
	}
	return nil
}

func doInspect(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	segment, asked := c.kind.Segment, key
	if c.kind.Type == "" {
		segment, asked = c.object.segment, inspected(key)
	}
	raw, err := c.client.InspectRaw(c.ctx, segment, asked)
	if segment == contivmodel.NetworkPolicySegment && isAbsent(err) {
		return fault.New(fault.NotFound, "%s not found: %s", c.object.name, key)
	}
	if err != nil {
		return c.absent(err, c.kind, key)
	}
	return c.printDocument(raw)
}

// doListMembers prints the groups of an application profile.
func doListMembers(c *call) error {
	key, err := c.key()
	if err != nil {
		return err
	}
	profile, err := client.Get[contivmodel.AppProfile](c.ctx, c.client, key)
	if err != nil {
		return c.absent(err, c.kind, key)
	}
	switch c.format() {
	case formatJSON, formatYAML:
		return c.printDocument(profile)
	}
	_, err = fmt.Fprintln(c.out, strings.Join(profile.EndpointGroups, ","))
	return err
}

func quietFlags(contivmodel.Kind) []cli.Flag {
	return []cli.Flag{&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing on success"}}
}

func removeFlags(kind contivmodel.Kind) []cli.Flag {
	return append(quietFlags(kind),
		&cli.BoolFlag{Name: "ignore-not-found", Usage: "succeed if there is nothing to delete"})
}

func listFlags(kind contivmodel.Kind) []cli.Flag {
	flags := outputFlags(kind)
	if scoped(kind) {
		flags = append(flags, allTenantsFlag())
	}
	return flags
}

// memberFlags accepts, for old scripts, two flags without effect.
func memberFlags(contivmodel.Kind) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Aliases: []string{"j"}, Usage: "print JSON"},
		outputFlag(documentFormats),
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Hidden: true},
		&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Hidden: true},
	}
}

func outputFlags(contivmodel.Kind) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Aliases: []string{"j"}, Usage: "print JSON"},
		&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print names only"},
		outputFlag(listFormats),
		&cli.BoolFlag{Name: "no-headers", Usage: "leave out the headings of a table"},
	}
}

func inspectFlags(contivmodel.Kind) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "json", Aliases: []string{"j"}, Hidden: true, Usage: "print JSON, which is the default"},
		outputFlag(documentFormats),
	}
}

// infoFlags accepts, for old scripts, two flags without effect.
func infoFlags(kind contivmodel.Kind) []cli.Flag {
	return append(outputFlags(kind),
		&cli.StringFlag{Name: "tenant", Aliases: []string{"t"}, Hidden: true},
		&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Hidden: true})
}
