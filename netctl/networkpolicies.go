package netctl

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// NetworkPolicies are objects of Kubernetes, and have no kind: netmaster reports where they are in force.

// meansNetworkPolicies reports whether a word for a kind means NetworkPolicies.
func meansNetworkPolicies(word string) bool {
	return slices.Contains([]string{"network-policy", "network-policies", "networkpolicy", "networkpolicies", "netpol"}, strings.ToLower(word))
}

// networkPolicy describes where a NetworkPolicy is in force.
func (d *description) networkPolicy(id string) error {
	if err := checkID("network-policy", id); err != nil {
		return err
	}
	a, err := d.inspect(contivmodel.NetworkPolicySegment, inspected(id))
	if isAbsent(err) {
		return fault.New(fault.NotFound, "network-policy not found: %s", id)
	}
	if err != nil {
		return err
	}
	d.printf("network-policy/%s\n", printable(strings.Replace(id, ":", "/", 1)))
	d.oper(a.Oper)
	var rows [][]string
	for _, m := range member[[]contivmodel.NetworkPolicyMissing](d, a.Oper, "missing") {
		rows = append(rows, printables(m.Node, m.Why))
	}
	if len(rows) > 0 {
		d.table("Missing", []string{"Node", "Why"}, rows)
	}
	return d.err
}
