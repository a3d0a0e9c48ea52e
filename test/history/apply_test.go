package history

import (
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

// An apply that replaces an object names it twice. What it was refused for
// belongs to the operation that can be refused so.
func TestARefusedApplyBlamesTheOperationThatMayBeRefusedSo(t *testing.T) {
	for text, blamed := range map[string]Verb{
		"Policy not found: p2 of tenant t1":  Post,
		"Policy not found":                   Post,
		"endpointGroup not found":            Delete,
		"Error: EPG g2 has active endpoints": Delete,
	} {
		apply := &Call{Outcome: Refused, Kind: fault.MissingReference, Details: []string{"network t1:n0: Tenant not found", "endpointGroup t1:g2: " + text}}
		for _, op := range []Operation{
			{Verb: Post, Type: "network", Key: "t1:n0"}, {Verb: Delete, Type: "endpointGroup", Key: "t1:g2"}, {Verb: Post, Type: "endpointGroup", Key: "t1:g2"},
		} {
			apply.Members, apply.tags = append(apply.Members, op), append(apply.tags, 0)
		}
		for _, c := range apply.each()[1:] {
			if got := c.Outcome == Refused; got != (c.Verb == blamed) {
				t.Errorf("%q: %s is %s", text, c.Verb, c.Outcome)
			}
		}
	}
}
