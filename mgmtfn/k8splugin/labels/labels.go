// Package labels finds out which tenant, network and endpoint group a
// container belongs to.
//
// Three labels say so: io.contiv.tenant, io.contiv.network and
// io.contiv.net-group. Where they are written depends on who runs the
// container. Under Kubernetes they are annotations and labels of the pod and its
// namespace, which netmaster reads (Placed); everywhere else they come with the CNI call
// itself (Call). Each label is looked for on its own: one may come from the first
// place, another from the last.
package labels

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Identity is where a container belongs.
type Identity struct {
	Tenant  string
	Network string
	Group   string // empty: none
	PodUID  string // of a pod that netmaster has placed; empty: of no such

	IPv4, IPv6 netip.Addr // addresses it is to have; invalid: any

	HostPorts []mastercfg.HostPort // ports of the node that lead to it
}

// String is the identity as messages show it.
func (i Identity) String() string {
	if i.Group == "" {
		return fmt.Sprintf("network %s of tenant %s", i.Network, i.Tenant)
	}
	return fmt.Sprintf("network %s, group %s of tenant %s", i.Network, i.Group, i.Tenant)
}

// Source says where a container belongs.
type Source interface {
	Identify(ctx context.Context, args netconf.Args, conf *netconf.Conf) (Identity, error)
}

// Call is the source without an orchestrator: CNI_ARGS (IO_CONTIV_TENANT=blue),
// then args.cni.labels of the network configuration, then its fields tenant,
// network and group, then the defaults.
type Call struct{}

// Identify never fails.
func (Call) Identify(_ context.Context, args netconf.Args, conf *netconf.Conf) (Identity, error) {
	return resolve(conf, args.Label, conf.Label), nil
}

// resolve asks places in order for each label and falls back to the fields of
// the network configuration, which speak for all containers of that network.
func resolve(conf *netconf.Conf, places ...func(label string) string) Identity {
	find := func(label, field, otherwise string) string {
		for _, place := range places {
			if value := place(label); value != "" {
				return value
			}
		}
		if field != "" {
			return field
		}
		return otherwise
	}
	return Identity{
		Tenant:  find(mastercfg.TenantLabel, conf.Tenant, mastercfg.DefaultTenant),
		Network: find(mastercfg.NetworkLabel, conf.Network, mastercfg.DefaultNetwork),
		Group:   find(mastercfg.GroupLabel, conf.Group, ""),
	}
}
