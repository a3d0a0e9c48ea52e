package netctl

import (
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/utils/buildinfo"
)

// versionTool prints the versions of the client and the server.
var versionTool = tool{
	name: "version", usage: "Show the versions of client and server", run: doVersion,
	flags: func() []cli.Flag { return []cli.Flag{outputFlag(documentFormats)} },
}

func doVersion(s *session) error {
	server, err := s.client.Version(s.ctx)
	if err != nil {
		return err
	}
	if s.format() != formatTable {
		return s.printDocument(map[string]buildinfo.Info{"client": buildinfo.Get(), "server": server})
	}
	_, err = fmt.Fprintf(s.out, "Client Version:\n%s\nServer Version:\n%s\n", buildinfo.Get(), server)
	return err
}
