package netctl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

var describeTool = tool{
	name: "describe", usage: "Show all there is to know of an object, for reading", args: "KIND [NAME]", run: doDescribe,
	flags: func() []cli.Flag { return []cli.Flag{tenantFlag()} },
	more: "Shows what was configured, what is at run time, what the object refers to and what refers to it. " +
		"KIND may also be endpoint; NAME is then an endpoint's id, the id or name of its container, or NAMESPACE/POD; " +
		"or network-policy, one of Kubernetes, as NAMESPACE/NAME: it is told on which nodes it is in force.",
}

func doDescribe(s *session) error {
	d := &description{&page{session: s}}
	args := s.cmd.Args()
	word, id, joined := strings.Cut(args.Get(0), "/")
	if !joined {
		id = args.Get(1)
	}
	switch {
	case meansEndpoints(word):
		return d.endpoint(id)
	case meansNetworkPolicies(word):
		return d.networkPolicy(id)
	}
	t, err := s.targetOf(args)
	if err == nil && t.key == "" && len(t.kind.KeyFields()[0].OneOf) == 1 {
		t.key = t.kind.KeyFields()[0].OneOf[0]
	}
	switch {
	case err != nil:
		return err
	case t.key == "":
		return usageError{"NAME required", s.cmd}
	}
	return d.object(t)
}

// description is the output of describe.
type description struct{ *page }

// answer is the response of inspect for an object.
type answer struct {
	Config json.RawMessage
	Oper   map[string]any
}

func (d *description) inspect(segment, key string) (answer, error) {
	var a answer
	raw, err := d.client.InspectRaw(d.ctx, segment, key)
	if err != nil {
		return a, err
	}
	if err := decode(raw, &a); err != nil {
		return a, fault.New(fault.Internal, "inspect %s/%s: answer cannot be understood: %w", segment, key, err)
	}
	return a, nil
}

func (d *description) object(t target) error {
	a, err := d.inspect(t.kind.Segment, t.key)
	if err != nil {
		return d.absent(err, t.kind, t.key)
	}
	o := t.kind.New()
	if err := json.Unmarshal(a.Config, o); err != nil {
		return fault.New(fault.Internal, "%s: answer cannot be understood: %w", fullName(t.kind.Type, t.key), err)
	}
	d.printf("%s\n%s\n", fullName(t.kind.Type, t.key), t.kind.Doc)
	d.config(t.kind, o)
	d.oper(a.Oper)
	d.relations(o)
	if t.kind.Type == "policy" {
		d.rules(o.(*contivmodel.Policy))
	}
	d.endpoints(a.Oper)
	d.counters(member[map[string]contivmodel.EndpointCounters](d, a.Oper, countersMember))
	return d.err
}

// config prints the fields that are set.
func (d *description) config(kind contivmodel.Kind, o contivmodel.Object) {
	var lines [][2]string
	for _, f := range kind.Fields {
		if !f.Empty(o) {
			lines = append(lines, [2]string{f.Name, plain(f.Value(o))})
		}
	}
	d.section("Configuration", lines)
}

// oper prints the run-time values; lists of endpoints and counters have sections of their own, of other lists of
// objects the length is printed.
func (d *description) oper(members map[string]any) {
	var lines [][2]string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if name == countersMember {
			continue
		}
		if list, ok := members[name].([]any); ok && len(list) > 0 {
			if _, ofObjects := list[0].(map[string]any); ofObjects {
				if !slices.Contains(endpointLists, name) {
					lines = append(lines, [2]string{name, fmt.Sprint(len(list))})
				}
				continue
			}
		}
		lines = append(lines, [2]string{name, text(name, []string{name}).cell(members)})
	}
	d.section("State", lines)
}

// relations prints the links, by direction.
func (d *description) relations(o contivmodel.Object) {
	var there, here [][2]string
	for _, r := range contivmodel.Relations(o) {
		lines := &here
		if r.Forward {
			lines = &there
		}
		for _, link := range r.Links {
			*lines = append(*lines, [2]string{r.Name, fullName(link.Type, link.Key)})
		}
	}
	d.section("Refers to", there)
	d.section("Referred to by", here)
}

// rules prints the rules of a policy as rule-ls does.
func (d *description) rules(p *contivmodel.Policy) {
	kind, _ := contivmodel.KindByType("rule")
	c := d.about(kind)
	rules, err := d.client.ListTenant(d.ctx, kind, p.TenantName)
	if d.err == nil {
		d.err = err
	}
	rules = c.having(c.having(rules, "tenantName", p.TenantName), "policyName", p.PolicyName)
	if d.err != nil || len(rules) == 0 {
		return
	}
	sortRules(rules)
	d.printf("\n")
	if d.err == nil {
		d.err = c.printRules(rules)
	}
}

// endpointLists are the members of run-time data with endpoints.
var endpointLists = []string{"endpoints", "providers"}

// endpoints prints the endpoints of an object.
func (d *description) endpoints(oper map[string]any) {
	for _, name := range endpointLists {
		list := member[[]contivmodel.EndpointOper](d, oper, name)
		if len(list) == 0 {
			continue
		}
		headings, rows := endpointTable(endpointColumns, list)
		d.table(strings.ToUpper(name[:1])+name[1:], headings, rows)
	}
}

// member returns a member of run-time data with its declared type; the zero value if it is missing.
func member[T any](d *description, oper map[string]any, name string) (value T) {
	text, err := json.Marshal(oper[name])
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if d.err == nil && err != nil {
		d.err = fault.New(fault.Internal, "%s: answer cannot be understood: %w", name, err)
	}
	return value
}

// countersMember is the member of run-time data with counters: of an endpoint its own, of a service those of each
// provider.
const countersMember = "counters"

// counters prints traffic by address.
func (d *description) counters(all map[string]contivmodel.EndpointCounters) {
	var rows [][]string
	for _, address := range slices.Sorted(maps.Keys(all)) {
		rows = append(rows, append(printables(address), counted(all[address])...))
	}
	if len(rows) > 0 {
		d.table("Counters", append([]string{"Address"}, countedHeadings...), rows)
	}
}

var countedHeadings = []string{"Packets received", "Bytes received", "Packets sent", "Bytes sent"}

// counted returns the cells below countedHeadings.
func counted(c contivmodel.EndpointCounters) []string {
	return []string{fmt.Sprint(c.RxPackets), fmt.Sprint(c.RxBytes), fmt.Sprint(c.TxPackets), fmt.Sprint(c.TxBytes)}
}

// endpoint describes an endpoint, which has only run-time data.
func (d *description) endpoint(id string) error {
	if err := checkID("endpoint", id); err != nil {
		return err
	}
	a, err := d.inspect(contivmodel.EndpointSegment, inspected(id))
	if err != nil {
		return d.absent(err, contivmodel.Kind{}, id)
	}
	d.printf("endpoint/%v\n", a.Oper["endpointID"])
	d.oper(a.Oper)
	if c := member[*contivmodel.EndpointCounters](d, a.Oper, countersMember); c != nil {
		d.table("Counters", countedHeadings, [][]string{counted(*c)})
	}
	return d.err
}
