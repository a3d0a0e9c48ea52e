package netctl

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/contivmodel/client"
)

const defaultNetmaster = "http://netmaster:9999"

func connectionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "netmaster", Aliases: []string{"server"}, Value: defaultNetmaster,
			Sources: cli.NewValueSourceChain(env{name: "NETMASTER"}),
			Usage:   "URLs of netmasters, comma separated, tried in turn"},
		&cli.BoolFlag{Name: "insecure", Sources: cli.NewValueSourceChain(env{name: "INSECURE", valid: isBool}),
			Usage: "do not verify the server's certificate"},
		&cli.StringFlag{Name: "cacert", TakesFile: true, Usage: "trust the certificates of this file instead of the system's"},
		&cli.StringFlag{Name: "cert", TakesFile: true, Usage: "client certificate"},
		&cli.StringFlag{Name: "key", TakesFile: true, Usage: "key of the client certificate"},
		&cli.DurationFlag{Name: "request-timeout", Value: client.DefaultTimeout, Usage: "how long a server may take to answer"},
	}
}

// connect makes the client that the flags describe.
func connect(cmd *cli.Command) (*client.Client, error) {
	c, err := client.New(client.Config{
		URLs:     strings.Split(cmd.String("netmaster"), ","),
		Insecure: cmd.Bool("insecure"),
		CAFile:   cmd.String("cacert"),
		CertFile: cmd.String("cert"),
		KeyFile:  cmd.String("key"),
		Timeout:  cmd.Duration("request-timeout"),
	})
	if err != nil {
		return nil, usageError{message: fmt.Sprintf("cannot connect: %v", err)}
	}
	return c, nil
}

// env reads a flag's value from the environment. An empty or unusable value
// counts as unset.
type env struct {
	name  string
	valid func(string) bool // nil: everything is
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
