package netctl

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netctl/credentials"
)

const defaultNetmaster = "http://netmaster:9999"

// requestTimeout is the flag for the time limit of a request.
const requestTimeout = "request-timeout"

func connectionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "netmaster", Aliases: []string{"server"}, Value: defaultNetmaster,
			Sources: cli.NewValueSourceChain(env{name: "NETMASTER"}),
			Usage:   "URLs of netmasters, comma separated, tried in turn; or " + rootSocket + ", which is the default of root on the machine of a netmaster"},
		&cli.BoolFlag{Name: "insecure", Sources: cli.NewValueSourceChain(env{name: "INSECURE", valid: isBool}),
			Usage: "do not verify the server's certificate"},
		&cli.StringFlag{Name: "cacert", TakesFile: true, Usage: "trust the certificates of this file instead of the system's"},
		&cli.StringFlag{Name: "cert", TakesFile: true, Usage: "client certificate"},
		&cli.StringFlag{Name: "key", TakesFile: true, Usage: "key of the client certificate"},
		&cli.StringFlag{Name: "token", Sources: cli.NewValueSourceChain(env{name: "NETCTL_TOKEN"}),
			Usage: "API token, or one of an authenticating proxy, instead of that of login"},
		&cli.DurationFlag{Name: requestTimeout, Value: client.DefaultTimeout, Usage: "how long a server may take to answer"},
	}
}

// servers returns the URLs of the flags. The default for root on a netmaster's machine is that netmaster's socket.
func servers(cmd *cli.Command) []string {
	if socket := strings.TrimPrefix(rootSocket, "unix://"); !cmd.IsSet("netmaster") && os.Geteuid() == 0 {
		if info, err := os.Stat(socket); err == nil && info.Mode()&os.ModeSocket != 0 {
			return []string{rootSocket}
		}
	}
	urls := strings.Split(cmd.String("netmaster"), ",")
	for i := range urls {
		urls[i] = strings.TrimSuffix(strings.TrimSpace(urls[i]), "/")
	}
	return urls
}

// settings returns the client's configuration by the flags, without credentials.
func settings(cmd *cli.Command) client.Config {
	return client.Config{
		URLs:     servers(cmd),
		Insecure: cmd.Bool("insecure"),
		CAFile:   cmd.String("cacert"),
		CertFile: cmd.String("cert"),
		KeyFile:  cmd.String("key"),
		Timeout:  cmd.Duration(requestTimeout),
	}
}

// connect returns the client that the flags describe, with the tokens of login.
func connect(cmd *cli.Command, errOut io.Writer) (*client.Client, error) {
	cfg := settings(cmd)
	cfg.Warn = func(text string) { fmt.Fprintf(errOut, "warning: %s\n", printable(text)) }
	stored, damaged := credentials.Load(credentials.File())
	if err := credentials.Exposed(credentials.File()); err != nil {
		cfg.Warn(err.Error())
	}
	cfg.Authorities = stored.Authorities(cfg.URLs...)
	switch given := cmd.String("token"); {
	case given != "":
		stored, damaged = credentials.Store{Token: given}, nil
	case cfg.CertFile != "": // a certificate replaces the tokens of a login
		stored, damaged = credentials.Store{}, nil
	}
	var err error
	if cfg.Tokens, err = tokens(cfg.URLs, stored, damaged, errOut); err != nil {
		return nil, err
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, usageError{message: fmt.Sprintf("cannot connect: %v", err)}
	}
	return c, nil
}

// tokens returns the tokens for the servers. They are secrets: a server without encryption gets none, with a
// warning. A damaged file is an error only for a server with encryption.
func tokens(urls []string, stored credentials.Store, damaged error, errOut io.Writer) (map[string]string, error) {
	found := map[string]string{}
	for _, url := range urls {
		encrypted := strings.HasPrefix(url, "https://")
		token := stored.For(url)
		switch {
		case encrypted && damaged != nil:
			return nil, damaged
		case encrypted && token != "":
			found[url] = token
		case token != "" && !strings.HasPrefix(url, "unix://"): // there, root needs no token
			fmt.Fprintf(errOut, "warning: not logged in at %s: tokens are sent over https only\n", url)
		case damaged != nil:
			fmt.Fprintf(errOut, "warning: %v\n", damaged)
		}
	}
	return found, nil
}

// env reads a flag's value from the environment. An empty or invalid value counts as unset.
type env struct {
	name  string
	valid func(string) bool // nil: all values are valid
}

func (e env) Lookup() (string, bool) {
	value := os.Getenv(e.name)
	if value == "" || e.valid != nil && !e.valid(value) {
		return "", false
	}
	return value, true
}

func (e env) String() string   { return fmt.Sprintf("environment variable %q", e.name) }
func (e env) GoString() string { return fmt.Sprintf("env{name: %q}", e.name) }
func (e env) IsFromEnv() bool  { return true }
func (e env) Key() string      { return e.name }

func isBool(text string) bool {
	_, err := strconv.ParseBool(text)
	return err == nil
}
