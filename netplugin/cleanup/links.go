package cleanup

import (
	"context"
	"os"
	"path/filepath"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/netspace"
)

// links returns the host's ends of all links that a driver has created. Their other ends are removed with them,
// whatever their namespaces and names.
func links(context.Context, Config) (things []thing, err error) {
	ends, err := ovsd.OwnLinks()
	for _, end := range ends {
		things = append(things, thing{
			what:   "link " + end.Name + " of " + end.Of,
			remove: func(context.Context) error { return ovsd.RemoveOwnLink(end.Name) },
		})
	}
	return things, err
}

// netnsDir is the directory of named network namespaces.
const netnsDir = "/run/netns"

// namespaces returns the network namespaces of the name server.
func namespaces(context.Context, Config) (things []thing, err error) {
	for _, encap := range []pipeline.Encap{pipeline.VXLAN, pipeline.VLAN} {
		name := ovsd.DefaultNamesNetNS(encap)
		if _, err := os.Lstat(filepath.Join(netnsDir, name)); err == nil {
			things = append(things, thing{what: "network namespace " + name, remove: func(context.Context) error { return netspace.Delete(name) }})
		}
	}
	return things, nil
}
