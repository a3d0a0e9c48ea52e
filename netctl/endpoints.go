package netctl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
)

// Endpoints are created by container runtimes, not by users, and have no kind: they are read from the run-time
// data of the networks.

// endpointColumn is a column of a listing of endpoints.
type endpointColumn struct {
	heading string
	cell    func(contivmodel.EndpointOper) string
}

var (
	endpointColumns = []endpointColumn{
		{"Endpoint", func(e contivmodel.EndpointOper) string { return e.EndpointID }},
		{"Container", containerOf},
		{"Network", func(e contivmodel.EndpointOper) string { return e.Network }},
		{"Group", func(e contivmodel.EndpointOper) string { return e.EndpointGroupKey }},
		{"Host", func(e contivmodel.EndpointOper) string { return e.HomingHost }},
		{"Addresses", func(e contivmodel.EndpointOper) string { return addresses(e) }},
		{"MAC", func(e contivmodel.EndpointOper) string { return e.MacAddress }},
	}
	endpointWideColumns = []endpointColumn{
		{"Container ID", func(e contivmodel.EndpointOper) string { return e.ContainerID }},
		{"Interface", func(e contivmodel.EndpointOper) string { return e.IntfName }},
		{"Port", func(e contivmodel.EndpointOper) string { return e.VirtualPort }},
		{"VTEP", func(e contivmodel.EndpointOper) string { return e.VtepIP }},
		{"Labels", func(e contivmodel.EndpointOper) string { return e.Labels }},
	}
)

// containerOf returns the name of the container, or of the pod: NAMESPACE/POD.
func containerOf(e contivmodel.EndpointOper) string {
	if e.PodNamespace == "" {
		return e.ContainerName
	}
	return e.PodNamespace + "/" + e.ContainerName
}

// inspected returns the id by which netmaster finds an endpoint: pods are NAMESPACE:POD there.
func inspected(id string) string { return strings.Replace(id, "/", ":", 1) }

// addresses joins the valid addresses.
func addresses(e contivmodel.EndpointOper) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(e.IPAddress), func(a string) bool { return a == "" }), ",")
}

func endpointFlags(kind contivmodel.Kind) []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "network", OnlyOnce: true, Usage: "only those of this network"},
		&cli.StringFlag{Name: "group", OnlyOnce: true, Usage: "only those of this endpoint group"},
		&cli.StringFlag{Name: "host", OnlyOnce: true, Usage: "only those on this host"},
		tenantFlag(), allTenantsFlag(),
	}, outputFlags(kind)...)
}

func doListEndpoints(c *call) error { return getEndpoints(c.session, "") }

// endpoints returns the endpoints that the flags select, by network and id.
func (s *session) endpoints() ([]contivmodel.EndpointOper, error) {
	c := &call{session: s, object: &object{}, kind: kindOf("network")}
	networks, err := c.list()
	if err != nil {
		return nil, err
	}
	networks = slices.DeleteFunc(networks, func(o contivmodel.Object) bool { return !s.selects("network", nameOf(o)) })
	answers, err := inspectAll[contivmodel.NetworkInspect](c, networks)
	if err != nil {
		return nil, err
	}
	selected := []contivmodel.EndpointOper{}
	for _, network := range answers {
		for _, e := range network.Oper.Endpoints {
			group, _, _ := strings.Cut(e.EndpointGroupKey, ":")
			if s.selects("group", group) && s.selects("host", e.HomingHost) {
				selected = append(selected, e)
			}
		}
	}
	slices.SortFunc(selected, func(a, b contivmodel.EndpointOper) int {
		return cmp.Or(cmp.Compare(a.Network, b.Network), cmp.Compare(a.EndpointID, b.EndpointID))
	})
	return selected, nil
}

// selects reports whether a flag is absent or equals a value.
func (s *session) selects(flag, value string) bool {
	wanted := s.cmd.String(flag)
	return wanted == "" || wanted == value
}

// printEndpoints prints endpoints in the format of the flags.
func (s *session) printEndpoints(endpoints []contivmodel.EndpointOper) error {
	columns := endpointColumns
	switch format := s.format(); format {
	case formatJSON, formatYAML:
		return s.printDocument(endpoints)
	case formatQuiet, formatName:
		for _, e := range endpoints {
			name := e.EndpointID
			if format == formatName {
				name = fullName("endpoint", name)
			}
			if _, err := fmt.Fprintln(s.out, printable(name)); err != nil {
				return err
			}
		}
		return nil
	case formatWide:
		columns = append(slices.Clone(columns), endpointWideColumns...)
	}
	headings, rows := endpointTable(columns, endpoints)
	return s.printRows(headings, rows)
}

// endpointTable returns the table of some columns.
func endpointTable(columns []endpointColumn, endpoints []contivmodel.EndpointOper) (headings []string, rows [][]string) {
	for _, col := range columns {
		headings = append(headings, col.heading)
	}
	for _, e := range endpoints {
		var row []string
		for _, col := range columns {
			row = append(row, printable(col.cell(e)))
		}
		rows = append(rows, row)
	}
	return headings, rows
}

// meansEndpoints reports whether a word for a kind means endpoints.
func meansEndpoints(word string) bool {
	return slices.Contains([]string{"endpoint", "endpoints", "ep", "eps"}, strings.ToLower(word))
}

// getEndpoints is netctl get for endpoints.
func getEndpoints(s *session, id string) error {
	if id == "" {
		endpoints, err := s.endpoints()
		if err != nil {
			return err
		}
		return s.printEndpoints(endpoints)
	}
	endpoint, err := client.Endpoint(s.ctx, s.client, inspected(id))
	if err != nil {
		return s.absent(err, contivmodel.Kind{}, id)
	}
	return s.printEndpoints([]contivmodel.EndpointOper{endpoint})
}
