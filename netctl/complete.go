package netctl

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
)

// completionTime is the default time limit for names from the server; --request-timeout changes it.
const completionTime = 2 * time.Second

// doComplete prints the possible words at the position of the last argument, one per line, with a description
// after a tab. Words that cannot be determined are omitted: completion prints no errors.
func doComplete(s *session) error {
	words := s.cmd.Args().Slice()
	if len(words) == 0 {
		words = []string{""}
	}
	p := nothingTyped(s.cmd.Root())
	for _, f := range connectionFlags() {
		if name := f.Names()[0]; s.cmd.IsSet(name) { // given before __complete, or in the environment
			p.value(name, fmt.Sprint(s.cmd.Value(name)))
		}
	}
	p.read(words[:len(words)-1])
	current := words[len(words)-1]
	for _, candidate := range p.candidates(s.ctx, current) {
		if value, _, _ := strings.Cut(candidate, "\t"); !strings.HasPrefix(value, current) && value != filesWanted {
			continue
		}
		if _, err := fmt.Fprintln(s.out, candidate); err != nil {
			return err
		}
	}
	return nil
}

// typed is an incomplete command line.
type typed struct {
	command    *cli.Command
	path       []string // names of the command and its parents
	args       []string // positional arguments so far
	connection []string // flags for the connection to the server
	tenant     string
	patience   time.Duration // time limit for names from the server
	pending    string        // name of the flag whose value comes next; empty: none
	flagsEnded bool          // after "--"
}

func nothingTyped(root *cli.Command) *typed {
	return &typed{command: root, tenant: "default", patience: completionTime}
}

// read parses the words before the one to complete.
func (p *typed) read(words []string) {
	for _, word := range words {
		switch {
		case p.pending != "":
			p.value(p.pending, word)
			p.pending = ""
		case word == "--":
			p.flagsEnded = true
		case strings.HasPrefix(word, "-") && !p.flagsEnded:
			p.flag(word)
		default:
			p.word(word)
		}
	}
}

// flag parses a word that begins with a dash.
func (p *typed) flag(word string) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
	f := p.find(name)
	switch {
	case f == nil:
	case hasValue:
		p.value(name, value)
	case isSwitch(f):
		p.value(name, "true")
	default:
		p.pending = name
	}
}

// value records the flags that matter for completion.
func (p *typed) value(name, value string) {
	f := p.find(name)
	switch {
	case slices.ContainsFunc(connectionFlags(), func(c cli.Flag) bool { return c.Names()[0] == f.Names()[0] }):
		p.connection = append(p.connection, "--"+name+"="+value)
		if given, err := time.ParseDuration(value); err == nil && name == requestTimeout {
			p.patience = given
		}
	case f.Names()[0] == "tenant":
		p.tenant = value
	}
}

// word parses a subcommand or an argument.
func (p *typed) word(word string) {
	for _, sub := range p.command.Commands {
		if slices.Contains(sub.Names(), word) {
			p.command, p.path = sub, append(p.path, sub.Name)
			return
		}
	}
	p.args = append(p.args, word)
}

// find returns a flag of the command line as parsed so far.
func (p *typed) find(name string) cli.Flag {
	for _, f := range append(slices.Clone(p.command.Flags), connectionFlags()...) {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func isSwitch(f cli.Flag) bool {
	_, is := f.(*cli.BoolFlag)
	return is
}

// candidates returns the words that may come next, regardless of current.
func (p *typed) candidates(ctx context.Context, current string) []string {
	name, _, inFlag := strings.Cut(strings.TrimLeft(current, "-"), "=")
	isFlag := strings.HasPrefix(current, "-") && !p.flagsEnded
	switch {
	case p.pending != "":
		return p.values(ctx, p.pending)
	case isFlag && inFlag && p.find(name) != nil:
		prefix, _, _ := strings.Cut(current, "=")
		var whole []string
		for _, value := range p.values(ctx, name) {
			if value == filesWanted {
				return []string{filesWanted}
			}
			whole = append(whole, prefix+"="+value)
		}
		return whole
	case isFlag:
		return p.flagNames()
	case len(p.command.Commands) > 0:
		return subcommands(p.command)
	}
	return p.arguments(ctx)
}

func subcommands(cmd *cli.Command) []string {
	var names []string
	for _, sub := range cmd.Commands {
		if !sub.Hidden {
			names = append(names, sub.Name+"\t"+sub.Usage)
		}
	}
	return names
}

func (p *typed) flagNames() []string {
	var names []string
	for _, f := range append(slices.Clone(p.command.Flags), connectionFlags()...) {
		usage := ""
		if described, ok := f.(cli.DocGenerationFlag); ok {
			usage = described.GetUsage()
		}
		if visible, ok := f.(cli.VisibleFlag); !ok || visible.IsVisible() {
			names = append(names, "--"+f.Names()[0]+"\t"+usage)
		}
	}
	return names
}

// verb returns the table entry of the command.
func (p *typed) verb() (*object, *verb) {
	if len(p.path) != 2 {
		return nil, nil
	}
	for i := range objects {
		for j := range objects[i].verbs {
			if objects[i].name == p.path[0] && objects[i].verbs[j].name == p.path[1] {
				return &objects[i], &objects[i].verbs[j]
			}
		}
	}
	return nil, nil
}

// references are the fields that refer to other objects, with the type of those.
var references = map[string]string{
	"tenantName": "tenant", "networkName": "network", "defaultNetwork": "network", "fromNetwork": "network", "toNetwork": "network",
	"groupName": "endpointGroup", "endpointGroups": "endpointGroup", "fromEndpointGroup": "endpointGroup", "toEndpointGroup": "endpointGroup",
	"policyName": "policy", "policies": "policy", "netProfile": "netprofile", "profileName": "netprofile",
	"extContractsGrps": "extContractsGroup", "contractsGroupName": "extContractsGroup", "appProfileName": "appProfile",
	"serviceName": "serviceLB", "hostname": "Bgp", "ruleId": "rule",
}

// filesWanted makes the shell complete the names of files.
const filesWanted = ":files"

// values returns the possible values of a flag.
func (p *typed) values(ctx context.Context, name string) []string {
	f := p.find(name)
	long := f.Names()[0]
	switch {
	case takesFile(f):
		return []string{filesWanted}
	case long == "tenant":
		return p.names(ctx, "tenant")
	case choicesOf(f) != nil:
		return choicesOf(f)
	}
	if o, v := p.verb(); v != nil {
		for _, f := range v.flags {
			if field, ok := kindFor(o, v).Field(f.field); ok && f.name() == long {
				return p.fieldValues(ctx, field)
			}
		}
	}
	return p.names(ctx, selections[long])
}

// selections are flags that set no field and refer to objects, with the type of those.
var selections = map[string]string{"network": "network", "group": "endpointGroup"}

// fieldValues returns the possible values of a field.
func (p *typed) fieldValues(ctx context.Context, field contivmodel.Field) []string {
	switch {
	case len(field.OneOf) > 0:
		return field.OneOf
	case field.Rule == "PROTOCOL":
		return []string{"tcp", "udp", "icmp"}
	}
	return p.names(ctx, references[field.Name])
}

func takesFile(f cli.Flag) bool {
	switch f := f.(type) {
	case *cli.StringFlag:
		return f.TakesFile
	case *cli.StringSliceFlag:
		return f.TakesFile
	}
	return false
}

// choicesOf returns the values of a flag made by outputFlag or roleFlag; nil for other flags.
func choicesOf(f cli.Flag) []string {
	text, ok := f.(*cli.StringFlag)
	if !ok || text.Validator == nil {
		return nil
	}
	all := map[string][]string{"output": listFormats, "role": slices.Concat(client.Roles(), joinRoles)}[text.Name]
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return text.Validator(one) != nil })
}

// arguments returns the possible values of the next positional argument.
func (p *typed) arguments(ctx context.Context) []string {
	if o, v := p.verb(); v != nil {
		if len(p.args) >= len(v.args) {
			return nil
		}
		isNew := v.name == "create" || v.name == "rule-add"
		if isNew && len(p.args) == len(v.args)-1 && o.typ != "Bgp" {
			return nil // the name of a new object
		}
		if o.typ == "" {
			return p.names(ctx, o.name)
		}
		return p.names(ctx, references[v.args[len(p.args)].field])
	}
	switch name := strings.Join(p.path, " "); {
	case name == "completion" && len(p.args) == 0:
		return shells
	case name == "get" && len(p.args) == 0:
		return append(commandKinds(), "endpoint", "all")
	case name == "describe" && len(p.args) == 0:
		return append(commandKinds(), "endpoint", "network-policy")
	case (name == "verdict" || name == "trace") && len(p.args) < 2:
		return p.names(ctx, "endpoint")
	case (name == "role grant" || name == "role revoke") && len(p.args) == 1:
		return client.Roles()
	case (name == "explain" || name == "delete") && len(p.args) == 0:
		return commandKinds()
	case (name == "get" || name == "describe" || name == "delete") && len(p.args) == 1:
		if meansEndpoints(p.args[0]) && name != "delete" {
			return p.names(ctx, "endpoint")
		}
		if kind, err := findKind(p.args[0]); err == nil {
			return p.names(ctx, kind.Type)
		}
	}
	return nil
}

// commandKinds returns the kinds by the names of their commands.
func commandKinds() []string {
	var names []string
	for _, o := range objects {
		if o.typ != "" {
			names = append(names, o.name)
		}
	}
	return append(names, "rule")
}

// names requests the names of a type's objects from the server, as netctl get does; rules are those of the policy
// typed before.
func (p *typed) names(ctx context.Context, typ string) []string {
	kind, ok := contivmodel.KindByType(typ)
	if !ok && typ != "endpoint" {
		return nil
	}
	// The context of a command refers to the command; the one below must not.
	asking, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	args := append([]string{"netctl"}, p.connection...)
	args = append(args, "get", typ, "--tenant", p.tenant, "--output", formatName)
	if typ == "endpoint" { // found by id in any tenant
		args = append(args, "--all")
	}
	var out strings.Builder
	if Run(asking, args, strings.NewReader(""), &out, io.Discard) != 0 {
		return nil
	}
	var names []string
	for key := range strings.Lines(out.String()) {
		key = strings.TrimPrefix(strings.TrimSpace(key), typ+"/")
		if scoped(kind) {
			key = strings.TrimPrefix(key, p.tenant+":")
		}
		if policy, rule, isRule := strings.Cut(key, ":"); isRule && len(p.args) > 0 && p.path[0] == "policy" {
			if policy != p.args[0] {
				continue
			}
			key = rule
		}
		names = append(names, key)
	}
	return names
}
