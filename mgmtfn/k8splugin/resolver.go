package k8splugin

import "github.com/containernetworking/cni/pkg/types"

// resolver returns the DNS settings of a container: those of the runtime or the configuration, else the node's own
// name server, with the tenant's domain as search domain.
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
