package master

import (
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DockerNetwork returns docker's id of the docker network that corresponds to a network or a group of it; "" if
// docker does not know it. In swarm mode such a network is created and deleted through docker, and agents record the
// id.
func DockerNetwork(r ledger.Reader, tenant, network, group string) (string, error) {
	rec, err := ledger.Read[mastercfg.DnetOperState](r, mastercfg.DockerNetworkKey(tenant, network, group))
	if rec.TenantName != tenant || rec.NetworkName != network || rec.ServiceName != group {
		return "", ignoreNotFound(err) // names may contain the dots of the key
	}
	return rec.DocknetUUID, ignoreNotFound(err)
}
