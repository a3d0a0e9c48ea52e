package netctl

import (
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// wideColumn is a column of -o wide: a value in the answer of inspect.
type wideColumn struct {
	heading string
	path    []string // members, from the outermost; an object or list at the end is counted
}

// wideColumns are the columns that -o wide adds, by type of object.
var wideColumns = map[string][]wideColumn{
	"aciGw":      {{"App profiles", oper("numAppProfiles")}},
	"appProfile": {{"Linked groups", linked("EndpointGroups")}},
	"Bgp": {{"Admin status", oper("adminStatus")}, {"Neighbor status", oper("neighborStatus")},
		{"Routes", oper("numRoutes")}},
	"endpointGroup": {{"Effective tag", oper("pktTag")}, {"VNI", oper("externalPktTag")}, {"Endpoints", oper("numEndpoints")},
		{"Addresses used", oper("allocatedIPAddresses")}, {"Group tag", oper("groupTag")}},
	"extContractsGroup": {{"Groups", linked("EndpointGroups")}},
	"global": {{"Networks", oper("numNetworks")}, {"Vlans in use", oper("vlansInUse")},
		{"Vxlans in use", oper("vxlansInUse")}, {"Cluster mode", oper("clusterMode")}},
	"netprofile": {{"Groups", linked("EndpointGroups")}},
	"network": {{"Effective tag", oper("pktTag")}, {"VNI", oper("externalPktTag")}, {"Groups", linked("EndpointGroups")},
		{"Endpoints", oper("numEndpoints")}, {"Addresses", oper("allocatedAddressesCount")},
		{"Addresses used", oper("allocatedIPAddresses")}, {"Network tag", oper("networkTag")}},
	"policy": {{"Rules", linked("Rules")}, {"Groups", linked("EndpointGroups")}, {"Endpoints", oper("numEndpoints")}},
	"rule":   {{"Linked group", []string{"Config", "links", "MatchEndpointGroup", "key"}}},
	"serviceLB": {{"VIP", oper("serviceVip")}, {"Ports", []string{"Config", "ports"}},
		{"Providers", oper("numProviders")}},
	"tenant": {{"Networks", oper("totalNetworks")}, {"Groups", oper("totalEPGs")}, {"Policies", oper("totalPolicies")},
		{"Services", oper("totalServicelbs")}, {"Endpoints", oper("totalEndpoints")}},
}

func oper(member string) []string   { return []string{"Oper", member} }
func linked(member string) []string { return []string{"Config", "link-sets", member} }

// inspections is how many objects are asked for at a time.
const inspections = 8

// wideColumns inspects objects and returns what -o wide adds to their columns.
// An object that has gone meanwhile has empty cells.
func (c *call) wideColumns(objects []contivmodel.Object) ([]column, error) {
	answers := make([]map[string]any, len(objects))
	group, ctx := errgroup.WithContext(c.ctx)
	group.SetLimit(inspections)
	for i, o := range objects {
		group.Go(func() error {
			raw, err := c.client.InspectRaw(ctx, c.kind.Segment, o.ModelKey())
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			if err == nil {
				err = json.Unmarshal(raw, &answers[i])
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	byKey := make(map[string]map[string]any, len(objects))
	for i, o := range objects {
		byKey[o.ModelKey()] = answers[i]
	}
	var columns []column
	for _, wide := range wideColumns[c.kind.Type] {
		columns = append(columns, column{wide.heading, func(o contivmodel.Object) string {
			return printable(wide.cell(byKey[o.ModelKey()]))
		}})
	}
	return columns, nil
}

// cell shows the value; what is absent is zero or empty, so a count of nothing
// and an empty text look alike.
func (w wideColumn) cell(answer map[string]any) string {
	var value any = answer
	for _, member := range w.path {
		members, _ := value.(map[string]any)
		value = members[member]
	}
	switch v := value.(type) {
	case nil:
		return ""
	case map[string]any:
		return fmt.Sprint(len(v))
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = fmt.Sprint(v[i])
		}
		return strings.Join(items, ",")
	}
	return fmt.Sprint(value)
}
