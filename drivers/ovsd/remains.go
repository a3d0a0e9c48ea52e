package ovsd

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// OwnLink is the host's end of a link that a driver has made, in this run or in an earlier one.
type OwnLink struct {
	Name string
	Of   string // its endpoint, or the name server; for messages
}

// OwnLinks lists the links of all bridges of this host. It is for decommissioning a node; a running driver recreates
// them.
func OwnLinks() ([]OwnLink, error) {
	l, err := newLinks(nil, 0)
	if err != nil {
		return nil, err
	}
	defer l.close()
	all, err := l.list()
	if err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	var own []OwnLink
	for _, link := range all {
		a := link.Attrs()
		_, endpoint := hostLinkNumber(a.Name)
		ours := a.Group == drivers.LinkGroup(pipeline.VXLAN) || a.Group == drivers.LinkGroup(pipeline.VLAN)
		if ours && link.Type() == "veth" && (endpoint || strings.HasPrefix(a.Name, namesLinkPrefix)) {
			own = append(own, OwnLink{a.Name, cmp.Or(a.Alias, "nobody")})
		}
	}
	return own, nil
}

// RemoveOwnLink removes one of them; a missing one is no error.
func RemoveOwnLink(name string) error {
	l, err := newLinks(nil, 0)
	if err != nil {
		return err
	}
	defer l.close()
	return l.remove(name)
}
