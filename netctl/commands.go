package netctl

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
)

// object is a command: a type of the model, with its operations.
type object struct {
	name    string
	aliases []string
	typ     string // type in the model; empty: it has no kind, and cannot be configured
	segment string // path segment for inspection, if it has no kind
	usage   string
	verbs   []verb
	cells   map[string]func(any) string // formats a column's value, by field; default: unchanged
}

// verb is a subcommand.
type verb struct {
	name  string
	typ   string // type in the model if it differs from the object's
	usage string
	args  []arg
	spare bool // further arguments are accepted and ignored, for compatibility
	flags []flag
	run   action
	check func(*call, contivmodel.Object) error // completes and validates the object that create has built
	done  string                                // result line; {key}, {name}, {tenant} are replaced
}

// arg is a positional argument; all are required.
type arg struct {
	label string // in messages
	field string // of the model, by JSON name
}

// flag is a flag that sets a field.
type flag struct {
	names string // "subnetv6,s6"
	field string // of the model, by JSON name; empty: the verb's check reads it
	value any    // default; nil: none. A flag without field is a bool unless value has another type
	usage string // if the field's own text does not fit
	comma bool   // a list is one text with commas, not a repeated flag
}

func (f flag) name() string {
	name, _, _ := strings.Cut(f.names, ",")
	return name
}

// verbAliases are alternative names of verbs.
var verbAliases = map[string][]string{"rm": {"delete"}, "ls": {"list"}, "group-ls": {"group-list"}}

// call is one invocation about objects of one kind.
type call struct {
	*session
	object *object
	verb   *verb // nil for tools
	kind   contivmodel.Kind
}

// scoped reports whether the kind's objects belong to a tenant.
func scoped(kind contivmodel.Kind) bool { return len(kind.KeyFields()) > 1 }

func objectCommand(o *object) *cli.Command {
	cmd := &cli.Command{
		Name: o.name, Aliases: o.aliases, Usage: o.usage,
		Action: unknownCommand, OnUsageError: onUsageError,
	}
	for i := range o.verbs {
		cmd.Commands = append(cmd.Commands, verbCommand(o, &o.verbs[i]))
	}
	return cmd
}

// kindFor returns the kind of a verb's objects; the zero kind for endpoints.
func kindFor(o *object, v *verb) contivmodel.Kind {
	kind, ok := contivmodel.KindByType(v.typ)
	if !ok {
		kind, _ = contivmodel.KindByType(o.typ)
	}
	return kind
}

func verbCommand(o *object, v *verb) *cli.Command {
	kind := kindFor(o, v)
	cmd := &cli.Command{
		Name: v.name, Aliases: verbAliases[v.name], Usage: v.usage,
		OnUsageError:              onUsageError,
		HideHelpCommand:           true, // an object may be named "help"
		DisableSliceFlagSeparator: true,
		Flags:                     verbFlags(v, kind),
	}
	teach(cmd, o.name+" "+v.name, "")
	var labels []string
	for _, a := range v.args {
		labels = append(labels, "<"+a.label+">")
	}
	cmd.ArgsUsage = strings.Join(labels, " ")
	cmd.Action = func(ctx context.Context, cmd *cli.Command) error {
		c := &call{session: newSession(ctx, cmd), object: o, verb: v, kind: kind}
		err := c.checkArgs()
		if err == nil {
			err = c.connected(func() error { return v.run.do(c) })
		}
		return c.failed(err)
	}
	return cmd
}

// verbFlags returns the flags of the table, and those common to all such verbs.
func verbFlags(v *verb, kind contivmodel.Kind) []cli.Flag {
	var flags []cli.Flag
	for _, f := range v.flags {
		flags = append(flags, f.build(kind))
	}
	if scoped(kind) {
		flags = append(flags, tenantFlag())
	}
	if v.run.flags != nil {
		flags = append(flags, v.run.flags(kind)...)
	}
	return flags
}

// build returns the flag for the parser.
func (f flag) build(kind contivmodel.Kind) cli.Flag {
	names := strings.Split(f.names, ",")
	name, aliases := names[0], names[1:]
	field, ok := kind.Field(f.field)
	if !ok {
		return &cli.BoolFlag{Name: name, Aliases: aliases, Usage: f.usage}
	}
	usage := f.describe(field)
	switch {
	case field.Kind() == reflect.Int:
		value, _ := f.value.(int)
		return &cli.IntFlag{Name: name, Aliases: aliases, Usage: usage, Value: value, OnlyOnce: true}
	case field.Kind() == reflect.Slice && !f.comma:
		return &cli.StringSliceFlag{Name: name, Aliases: aliases, Usage: usage + "; may be repeated"}
	}
	value, _ := f.value.(string)
	return &cli.StringFlag{Name: name, Aliases: aliases, Usage: usage, Value: value, OnlyOnce: true}
}

// describe returns the help text of a flag: the field's meaning and its values.
func (f flag) describe(field contivmodel.Field) string {
	usage := f.usage
	if usage == "" {
		usage = field.Doc
	}
	if len(field.OneOf) > 0 {
		usage += fmt.Sprintf(" (%s)", strings.Join(field.OneOf, ", "))
	}
	return usage
}

// checkArgs refuses a wrong number of arguments, and invalid names.
func (c *call) checkArgs() error {
	given := c.cmd.Args().Slice()
	switch extra := given[min(len(given), len(c.verb.args)):]; {
	case len(extra) > 0 && c.verb.spare:
		fmt.Fprintf(c.errOut, "warning: ignored: %s\n", strings.Join(extra, " "))
	case len(extra) > 0:
		return usageError{"more arguments than required: " + strings.Join(extra, " "), c.cmd}
	}
	if len(given) < len(c.verb.args) {
		var missing []string
		for _, a := range c.verb.args[len(given):] {
			missing = append(missing, a.label+" name required")
		}
		return usageError{strings.Join(missing, ", "), c.cmd}
	}
	check := checkName
	if c.kind.Type == "" {
		check = checkID
	}
	for i, a := range c.verb.args {
		if err := check(a.label, given[i]); err != nil {
			return err
		}
	}
	if scoped(c.kind) {
		return checkName("tenant", c.tenant())
	}
	return nil
}

// checkName refuses names that would address another object, or none.
func checkName(label, name string) error { return checkWithout("/:", label, name) }

// checkID is checkName for the id of an endpoint. It may contain a colon, since it is not part of a longer key.
func checkID(label, id string) error { return checkWithout("/", label, inspected(id)) }

func checkWithout(refused, label, name string) error {
	if name == "" {
		return usageError{message: label + " name required"}
	}
	if i := strings.IndexAny(name, refused); i >= 0 {
		return usageError{message: fmt.Sprintf("%s name %q: may not contain %q", label, name, name[i])}
	}
	return nil
}

// fill sets fields of an object by arguments and flags. Flags with a default count as given.
func (c *call) fill(o contivmodel.Object, defaults bool) error {
	if f, ok := c.kind.Field("tenantName"); ok && scoped(c.kind) {
		if err := f.Set(o, c.tenant()); err != nil {
			return err
		}
	}
	for i, a := range c.verb.args {
		f, _ := c.kind.Field(a.field)
		if err := f.Set(o, c.cmd.Args().Get(i)); err != nil {
			return err
		}
	}
	for _, f := range c.verb.flags {
		field, ok := c.kind.Field(f.field)
		if !ok || !c.cmd.IsSet(f.name()) && (!defaults || f.value == nil) {
			continue
		}
		if err := field.Set(o, c.value(f, field)); err != nil {
			return err
		}
	}
	return nil
}

// value returns a flag's value with the type of its field.
func (c *call) value(f flag, field contivmodel.Field) any {
	if field.Kind() != reflect.Slice {
		return c.cmd.Value(f.name())
	}
	items := c.cmd.StringSlice(f.name())
	if f.comma {
		items = strings.Split(c.cmd.String(f.name()), ",")
	}
	return slices.DeleteFunc(items, func(item string) bool { return item == "" })
}

// result prints the line that reports the outcome.
func (c *call) result(o contivmodel.Object) error {
	if c.verb.done == "" || c.cmd.Bool("quiet") {
		return nil
	}
	line := strings.NewReplacer("{key}", o.ModelKey(), "{name}", nameOf(o), "{tenant}", c.cmd.String("tenant"))
	_, err := fmt.Fprintln(c.out, line.Replace(c.verb.done))
	return err
}
