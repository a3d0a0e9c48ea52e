package master

import (
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// DockerNetwork is docker's id of the network that one of ours, or a group of
// it, is to docker; "" if docker does not know it. In swarm mode such a network
// is made and deleted by way of docker, and agents note which it is.
func DockerNetwork(r ledger.Reader, tenant, network, group string) (string, error) {
	rec, err := ledger.Read[mastercfg.DnetOperState](r, mastercfg.DockerNetworkKey(tenant, network, group))
	return rec.DocknetUUID, ignoreNotFound(err)
}
