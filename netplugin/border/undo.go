package border

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/netplugin/hostaccess"
)

// Undo removes what a former BGP router has left on a node without uplinks: the interface, whose route would
// send packets for the outside network into a bridge without a link, and the rule that keeps other interfaces
// from answering for its address.
func Undo(ctx context.Context) error {
	link, err := findLink()
	if link != nil && err == nil && link.Type() == "veth" { // as ours is
		err = netlink.LinkDel(link)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", Interface, err)
	}
	return errors.Join(err, hostaccess.NewRouterARP().Remove(ctx))
}
