package netctl

import (
	"bufio"
	"context"
	"io"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/utils/fault"
)

// session is one invocation: its command line, client and output.
type session struct {
	ctx    context.Context
	cmd    *cli.Command
	client *client.Client // set by connected
	in     io.Reader
	lines  *bufio.Reader // of in, for several prompts
	out    io.Writer     // buffered; see flush
	errOut io.Writer

	trusted map[string]string // CAs of servers during login and logout, by URL, in PEM
}

func newSession(ctx context.Context, cmd *cli.Command) *session {
	root := cmd.Root()
	return &session{ctx: ctx, cmd: cmd, in: root.Reader, lines: bufio.NewReader(root.Reader), out: root.Writer, errOut: root.ErrWriter}
}

// connected calls do with the client that the flags describe.
func (s *session) connected(do func() error) error {
	var err error
	if s.client, err = connect(s.cmd, s.errOut); err != nil {
		return err
	}
	defer s.client.Close()
	err = do()
	switch {
	case client.IsUnknownAuthority(err):
		return fault.New(fault.Unavailable, "%w; netctl login asks for the pin of the authority, and --cacert names a file with it", err)
	case lacksPage(err):
		return fault.New(fault.Unsupported, "%w: the netmaster is too old for this command, or the URL is that of another server", err)
	}
	return err
}

// failed marks an error as one to be printed as JSON, if the format is JSON.
func (s *session) failed(err error) error {
	if err != nil && s.format() == formatJSON {
		return documented{err}
	}
	return err
}

// tenant returns the tenant of the invocation.
func (s *session) tenant() string { return s.cmd.String("tenant") }

// about returns the call for a kind that was typed as an argument.
func (s *session) about(kind contivmodel.Kind) *call {
	c := &call{session: s, object: &object{}, kind: kind}
	for i := range objects {
		if objects[i].typ == kind.Type {
			c.object = &objects[i]
		}
	}
	return c
}

// flush writes the buffered output.
func (s *session) flush() error {
	if buffered, ok := s.out.(interface{ Flush() error }); ok {
		return buffered.Flush()
	}
	return nil
}

func tenantFlag() cli.Flag {
	return &cli.StringFlag{Name: "tenant", Aliases: []string{"t"}, Value: "default", OnlyOnce: true, Usage: "tenant"}
}

func allTenantsFlag() cli.Flag {
	return &cli.BoolFlag{Name: "all", Aliases: []string{"a", "all-tenants", "A"}, Usage: "objects of all tenants"}
}
