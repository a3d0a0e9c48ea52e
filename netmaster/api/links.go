package api

import (
	"maps"
	"slices"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// keys are the linked keys, sorted.
func keys(links contivmodel.LinkSet) []string { return slices.Sorted(maps.Keys(links)) }

// names describe the linked objects, for the details of a refusal.
func names(links contivmodel.LinkSet) []string {
	var all []string
	for _, key := range keys(links) {
		all = append(all, links[key].Type+" "+key)
	}
	return all
}

// missing is the refusal because of an object a request refers to.
func missing(format string, args ...any) error {
	return fault.New(fault.MissingReference, format, args...)
}

// tenantOf reads the tenant an object belongs to.
func tenantOf(r ledger.Reader, name string) (*contivmodel.Tenant, error) {
	return master.Get[contivmodel.Tenant](r, name, missing("Tenant not found"))
}
