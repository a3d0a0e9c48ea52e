// Package labels determines the tenant, network and endpoint group of a container.
//
// They are set by three labels: io.contiv.tenant, io.contiv.network and io.contiv.net-group. The source of the
// labels depends on the orchestrator. Under Kubernetes they are annotations and labels of the pod and its
// namespace, which netmaster reads (Placed); otherwise they come with the CNI call itself (Call). Each label is
// searched for independently: one may come from the first place, another from the last.
package labels

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/netconf"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// Identity is the tenant, network and group of a container, with its requested addresses and ports.
type Identity struct {
	Tenant  string
	Network string
	Group   string // empty: none
	PodUID  string // of a pod that netmaster has placed; else empty

	IPv4, IPv6 netip.Addr // requested addresses; invalid: any

	HostPorts []mastercfg.HostPort // ports of the node that are forwarded to it
}

// String returns the identity for messages.
func (i Identity) String() string {
	if i.Group == "" {
		return fmt.Sprintf("network %s of tenant %s", i.Network, i.Tenant)
	}
	return fmt.Sprintf("network %s, group %s of tenant %s", i.Network, i.Group, i.Tenant)
}

// Source determines the identity of a container.
type Source interface {
	Identify(ctx context.Context, args netconf.Args, conf *netconf.Conf) (Identity, error)
}

// Call is the source without an orchestrator: CNI_ARGS (IO_CONTIV_TENANT=blue),
// then args.cni.labels of the network configuration, then its fields tenant,
// network and group, then the defaults.
type Call struct{}

// Identify refuses what has our prefix and is not known: a container whose group is misspelt would have no policy.
func (Call) Identify(_ context.Context, args netconf.Args, conf *netconf.Conf) (Identity, error) {
	known := []string{mastercfg.TenantLabel, mastercfg.NetworkLabel, mastercfg.GroupLabel}
	if key := args.Unknown(ofContiv, append(known, containerLabels)...); key != "" {
		return Identity{}, fault.New(fault.Invalid, "CNI_ARGS: %q is unknown: want IO_CONTIV_TENANT, IO_CONTIV_NETWORK, IO_CONTIV_NET_GROUP or %s, and a value", key, containerLabels)
	}
	for _, l := range conf.Args.CNI.Labels {
		if strings.HasPrefix(l.Key, ofContiv) && !slices.Contains(known, l.Key) {
			return Identity{}, fault.New(fault.Invalid, "network configuration %q: args.cni.labels: %q is unknown: want %s", conf.Name, l.Key, strings.Join(known, ", "))
		}
	}
	return resolve(conf, args.Label, conf.Label), nil
}

// resolve looks for each label in the places, in order, and then in the fields of the network configuration, which
// apply to all containers of that network.
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
