package vswitchd

import (
	"context"
	"strings"

	"github.com/contiv/netplugin/ofnet/unixctl"
	"github.com/contiv/netplugin/utils/fault"
)

// Remotes returns where the ovsdb-server of the machine accepts connections, as configured: addresses, and rows
// of databases that contain some, such as db:Open_vSwitch,Open_vSwitch,manager_options.
func (c Control) Remotes(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	var text string
	err := c.atSocket(ovsdbServer, func(socket string) (err error) {
		text, err = unixctl.Call(ctx, socket, "ovsdb-server/list-remotes")
		return err
	})
	if err != nil {
		return nil, fault.New(fault.Unavailable, "remotes of ovsdb-server in %s: %w", c.RunDir, err)
	}
	return strings.Fields(text), nil
}
