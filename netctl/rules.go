package netctl

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/utils/fault"
)

// directions are the two tables of rule-ls, with the columns that each omits, since rules of that direction cannot
// have them.
var directions = []struct {
	name, heading string
	without       []string
}{
	{"in", "Incoming Rules:", []string{"toEndpointGroup", "toNetwork"}},
	{"out", "Outgoing Rules:", []string{"fromEndpointGroup", "fromNetwork", "fromIpAddress"}},
}

// doListRules prints the rules of one policy, by priority.
func doListRules(c *call) error {
	policy := contivmodel.Policy{TenantName: c.tenant(), PolicyName: c.cmd.Args().First()}
	if err := c.requireTenant(policy.TenantName); err != nil {
		return err
	}
	if _, err := client.Get[contivmodel.Policy](c.ctx, c.client, policy.ModelKey()); err != nil {
		return c.absent(err, kindOf("policy"), policy.ModelKey())
	}
	rules, err := c.client.ListTenant(c.ctx, c.kind, policy.TenantName)
	if err != nil {
		return err
	}
	rules = c.having(rules, "tenantName", policy.TenantName)
	rules = c.having(rules, "policyName", policy.PolicyName)
	sortRules(rules)
	switch c.format() {
	case formatTable:
		return c.printRules(rules)
	case formatWide:
		counted, err := c.counters(policy.ModelKey())
		if err != nil {
			return err
		}
		return c.print(rules, append(c.ruleColumns("direction"), counted...))
	}
	return c.print(rules, c.ruleColumns("direction"))
}

// ruleHeadings are the headings of fields that the tables of rule-ls omit.
var ruleHeadings = map[string]string{"tenantName": "Tenant", "policyName": "Policy", "direction": "Direction"}

// ruleColumns returns the usual columns of rules, after leading ones that a single table of all rules needs.
func (c *call) ruleColumns(leading ...string) []column {
	var fields []contivmodel.Field
	for _, name := range leading {
		f, _ := c.kind.Field(name)
		f.Heading = ruleHeadings[name]
		fields = append(fields, f)
	}
	return c.columns(append(fields, c.kind.Columns()...))
}

// counters returns columns with the counters of a policy's rules; none if the server does not support them.
func (c *call) counters(policy string) ([]column, error) {
	counted, err := c.client.PolicyCounters(c.ctx, policy)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	for _, node := range counted.Silent {
		fmt.Fprintf(c.errOut, "warning: not counted: node %s\n", printable(node))
	}
	return []column{
		{"Packets", func(o contivmodel.Object) string { return fmt.Sprint(counted.Rules[o.ModelKey()].Packets) }},
		{"Bytes", func(o contivmodel.Object) string { return fmt.Sprint(counted.Rules[o.ModelKey()].Bytes) }},
	}, err
}

func sortRules(rules []contivmodel.Object) {
	slices.SortStableFunc(rules, func(a, b contivmodel.Object) int {
		return cmp.Compare(a.(*contivmodel.Rule).Priority, b.(*contivmodel.Rule).Priority)
	})
}

// printRules prints a table for each direction.
func (c *call) printRules(rules []contivmodel.Object) error {
	for _, d := range directions {
		fields := slices.DeleteFunc(c.kind.Columns(), func(f contivmodel.Field) bool {
			return slices.Contains(d.without, f.Name)
		})
		if _, err := fmt.Fprintln(c.out, d.heading); err != nil {
			return err
		}
		if err := c.print(c.having(rules, "direction", d.name), c.columns(fields)); err != nil {
			return err
		}
	}
	return nil
}

// exclusive are the combinations of fields that no rule of a direction can have.
var exclusive = map[string]struct {
	never [][2]string // flag, field
	both  [][2]string // pairs of flags of which one may be given
}{
	"in": {
		never: [][2]string{{"to-group", "toEndpointGroup"}, {"to-network", "toNetwork"}},
		both:  [][2]string{{"from-group", "from-network"}},
	},
	"out": {
		never: [][2]string{{"from-group", "fromEndpointGroup"}, {"from-network", "fromNetwork"}, {"from-ip-address", "fromIpAddress"}},
		both:  [][2]string{{"to-group", "to-network"}},
	},
}

// checkRule refuses flags that contradict the direction or each other.
func checkRule(c *call, o contivmodel.Object) error {
	rule := o.(*contivmodel.Rule)
	limits, known := exclusive[rule.Direction]
	if !known {
		return usageError{message: fmt.Sprintf("--direction %q: must be in or out", rule.Direction)}
	}
	for _, pair := range limits.never {
		if f, _ := c.kind.Field(pair[1]); !f.Empty(o) {
			return usageError{message: fmt.Sprintf("--%s cannot be given for a rule of direction %s", pair[0], rule.Direction)}
		}
	}
	for _, pair := range limits.both {
		if c.cmd.String(pair[0]) != "" && c.cmd.String(pair[1]) != "" {
			return usageError{message: fmt.Sprintf("--%s and --%s cannot be given together", pair[0], pair[1])}
		}
	}
	return nil
}
