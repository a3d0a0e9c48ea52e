package objects

import (
	"maps"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// keys returns the linked keys, sorted.
func keys(links contivmodel.LinkSet) []string { return slices.Sorted(maps.Keys(links)) }

// names lists the linked objects for the details of a refusal.
func names(links contivmodel.LinkSet) []string {
	var all []string
	for _, key := range keys(links) {
		all = append(all, links[key].Type+" "+key)
	}
	return all
}

// missing returns the refusal of a reference to a missing object.
func missing(format string, args ...any) *fault.Error {
	return fault.New(fault.MissingReference, format, args...)
}

// missingPolicy returns the same for a policy.
func missingPolicy(tenant, name string) error {
	return missing("Policy not found").WithExplanation("Policy not found: %s of tenant %s", name, tenant)
}

// immutable returns the refusal to change an existing object.
func immutable(o contivmodel.Object, text string) error {
	return fault.New(fault.Immutable, "%s", text).
		WithExplanation("%s: delete %s %s first", text, o.ModelType(), o.ModelKey())
}

// tenantOf reads the tenant of an object; the result is shared and must not be changed.
func tenantOf(r ledger.Reader, name string) (*contivmodel.Tenant, error) {
	return master.GetShared[contivmodel.Tenant](r, name, missing("Tenant not found").WithExplanation("Tenant not found: %s", name))
}
