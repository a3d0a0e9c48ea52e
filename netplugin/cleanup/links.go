package cleanup

import (
	"context"
	"os"
	"path/filepath"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/netspace"
)

// links finds the host's ends of all links that a driver has made. The other ends go
// with them, whatever namespace they are in and whatever they are called there.
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

// netnsDir is where network namespaces have names.
const netnsDir = "/run/netns"

// namespaces finds those of the name server.
func namespaces(context.Context, Config) (things []thing, err error) {
	for _, encap := range []pipeline.Encap{pipeline.VXLAN, pipeline.VLAN} {
		name := ovsd.DefaultNamesNetNS(encap)
		if _, err := os.Lstat(filepath.Join(netnsDir, name)); err == nil {
			things = append(things, thing{what: "network namespace " + name, remove: func(context.Context) error { return netspace.Delete(name) }})
		}
	}
	return things, nil
}
