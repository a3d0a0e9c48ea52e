package objects

import (
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/utils/fault"
)

// notDockers refuses to delete a network, or a group of it, that
// docker uses: in swarm mode these are deleted through docker.
func notDockers(c *Change, tenant, network, group string) error {
	if c.Config.ClusterMode != "swarm-mode" {
		return nil
	}
	id, err := master.DockerNetwork(c, tenant, network, group)
	switch {
	case err != nil || id == "":
		return err
	case group == "":
		return fault.New(fault.InUse, "cannot delete network %s mapped to docker network %s", network, id)
	}
	return fault.New(fault.InUse, "cannot delete group %s mapped to docker network %s", group, id)
}
