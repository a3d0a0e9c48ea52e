package netctl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// wideColumn is a column of -o wide: a value in the response of inspect.
type wideColumn struct {
	heading string
	path    []string // members, from the outermost; of a list at the end the length is shown
	absent  string   // shown if there is no value: zero numbers are omitted from responses
}

// wideColumns are the columns that -o wide adds, by type of object.
var wideColumns = map[string][]wideColumn{
	"aciGw":      {number("App profiles", oper("numAppProfiles"))},
	"appProfile": {number("Linked groups", linked("EndpointGroups"))},
	"Bgp": {text("Admin status", oper("adminStatus")), text("Neighbor status", oper("neighborStatus")),
		number("Routes", oper("numRoutes"))},
	"endpointGroup": {number("Effective tag", oper("pktTag")), number("VNI", oper("externalPktTag")),
		number("Endpoints", oper("numEndpoints")), text("Addresses used", oper("allocatedIPAddresses")), text("Group tag", oper("groupTag"))},
	"extContractsGroup": {number("Groups", linked("EndpointGroups"))},
	"global": {number("Networks", oper("numNetworks")), text("Vlans in use", oper("vlansInUse")),
		text("Vxlans in use", oper("vxlansInUse")), text("Cluster mode", oper("clusterMode"))},
	"netprofile": {number("Groups", linked("EndpointGroups"))},
	"network": {number("Effective tag", oper("pktTag")), number("VNI", oper("externalPktTag")), number("Groups", linked("EndpointGroups")),
		number("Endpoints", oper("numEndpoints")), number("Addresses", oper("allocatedAddressesCount")),
		text("Addresses used", oper("allocatedIPAddresses")), text("Network tag", oper("networkTag"))},
	"policy":    {number("Rules", linked("Rules")), number("Groups", linked("EndpointGroups")), number("Endpoints", oper("numEndpoints"))},
	"rule":      {text("Linked group", []string{"Config", "links", "MatchEndpointGroup", "key"})},
	"serviceLB": {text("VIP", oper("serviceVip")), text("Ports", []string{"Config", "ports"}), number("Providers", oper("numProviders"))},
	"tenant": {number("Networks", oper("totalNetworks")), number("Groups", oper("totalEPGs")), number("Policies", oper("totalPolicies")),
		number("Services", oper("totalServicelbs")), number("Endpoints", oper("totalEndpoints"))},
}

func text(heading string, path []string) wideColumn   { return wideColumn{heading, path, ""} }
func number(heading string, path []string) wideColumn { return wideColumn{heading, path, "0"} }

func oper(member string) []string   { return []string{"Oper", member} }
func linked(member string) []string { return []string{"Config", "link-sets", member} }

// wideColumns inspects objects and returns the additional columns of -o wide. An object that was removed meanwhile
// has empty cells.
func (c *call) wideColumns(objects []contivmodel.Object) ([]column, error) {
	answers, err := inspectAll[map[string]any](c, objects)
	if err != nil {
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

// inspections is the number of concurrent requests.
const inspections = 8

// inspectAll returns the responses of inspect for objects, in their order; empty for an object that was removed
// meanwhile.
func inspectAll[T any](c *call, objects []contivmodel.Object) ([]T, error) {
	answers := make([]T, len(objects))
	group, ctx := errgroup.WithContext(c.ctx)
	group.SetLimit(inspections)
	for i, o := range objects {
		group.Go(func() error {
			raw, err := c.client.InspectRaw(ctx, c.kind.Segment, o.ModelKey())
			if fault.Is(err, fault.NotFound) {
				return nil
			}
			if err == nil {
				err = decode(raw, &answers[i])
			}
			return err
		})
	}
	return answers, group.Wait()
}

// decode decodes a response. Numbers of unknown type retain their text: a float would be shown as 1.05e+06.
func decode(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return decoder.Decode(into)
}

// cell returns the value as text.
func (w wideColumn) cell(answer map[string]any) string {
	var value any = answer
	for _, member := range w.path {
		members, _ := value.(map[string]any)
		value = members[member]
	}
	switch v := value.(type) {
	case nil:
		return w.absent
	case map[string]any:
		return fmt.Sprint(len(v))
	case []any:
		var items []string
		for _, item := range v {
			if text := fmt.Sprint(item); text != "" {
				items = append(items, text)
			}
		}
		return strings.Join(items, ",")
	}
	return fmt.Sprint(value)
}
