package border

import (
	"context"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/netplugin/hostaccess"
)

// Undo takes down what a node that has no uplinks any more has left of the router that it was: the interface, whose route would lead
// what the host sends to the network outside into a bridge that leads nowhere, and the rule that keeps its address from
// being answered for elsewhere.
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
