package k8splugin

import "github.com/containernetworking/cni/pkg/types"

// resolver is the name server of a container: the one that the runtime or the configuration names,
// or else the node's own, with the tenant's domain searched.
func resolver(asked types.DNS, at Attachment) types.DNS {
	if len(asked.Nameservers) > 0 || len(at.NameServers) == 0 {
		return asked
	}
	for _, a := range at.NameServers {
		asked.Nameservers = append(asked.Nameservers, a.String())
	}
	if len(asked.Search) == 0 {
		asked.Search = []string{at.Domain}
	}
	return asked
}
