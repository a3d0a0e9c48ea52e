package netctl

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/utils/buildinfo"
)

// versionCommand shows which builds the client and the server are.
func versionCommand() *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "Show the versions of client and server",
		HideHelpCommand: true, OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return usageError{"more arguments than required: " + cmd.Args().First(), cmd}
			}
			c, err := connect(cmd)
			if err != nil {
				return err
			}
			defer c.Close()
			server, err := c.Version(ctx)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.Root().Writer, "Client Version:\n%s\nServer Version:\n%s\n", buildinfo.Get(), server)
			return err
		},
	}
}
