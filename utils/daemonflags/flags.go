// Package daemonflags declares the common command-line flags of netmaster and netplugin, with their aliases,
// environment variables and rules.
//
// A flag is set by any of its names, else by its environment variable, else by its default. An environment
// variable that is set but empty counts as unset. Rules are checked together after parsing, so that a user sees
// all errors at once; both daemons then exit with ExitInvalid (ExitCode).
package daemonflags

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/logging"
)

// ExitInvalid is the exit status for an invalid configuration (EINVAL).
const ExitInvalid = 22

// ExitCode returns the exit status for an error of the configuration: ExitInvalid, after which systemd does not
// restart a daemon; or 1 if all causes may be temporary, such as an address that the host does not have yet, or a
// full disk.
func ExitCode(err error) int {
	if passes(err) {
		return 1
	}
	return ExitInvalid
}

func passes(err error) bool {
	if several, are := err.(interface{ Unwrap() []error }); are {
		return !slices.ContainsFunc(several.Unwrap(), func(e error) bool { return !passes(e) })
	}
	var file *fs.PathError
	var link *os.LinkError
	wrong := []error{syscall.ENOENT, syscall.EACCES, syscall.EPERM, syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG}
	return fault.Is(err, fault.Unavailable) ||
		(errors.As(err, &file) || errors.As(err, &link)) && !slices.ContainsFunc(wrong, func(e error) bool { return errors.Is(err, e) })
}

// DefaultEtcdEndpoint is used when no store is given.
const DefaultEtcdEndpoint = "http://127.0.0.1:2379"

// Categories of the shared flags in --help.
const (
	CategoryCluster = "Cluster"
	CategoryStore   = "Store"
	CategoryLogging = "Logging"
)

// Common has the common settings of both daemons.
type Common struct {
	Mode    string // docker, kubernetes, swarm-mode, cni, test
	NetMode string // vlan, vxlan
	FwdMode string // bridge, routing
	Store   Store
	Logging logging.Config

	consul string // accepted, to report that it is not supported
	etcd   string // as given; Store.Endpoints after Validate
}

// Store has the settings for the connection to etcd.
type Store struct {
	Endpoints                 []string
	CAFile, CertFile, KeyFile string
	ServerName                string
	User                      string // name:password
}

// Credentials returns the two parts of User.
func (s Store) Credentials() (name, password string) {
	name, password, _ = strings.Cut(s.User, ":")
	return name, password
}

// Flags returns the shared flags of a daemon ("netmaster" or "netplugin"), bound to the fields of c.
func Flags(daemon string, c *Common) []cli.Flag {
	c.Logging.Tag = daemon
	set := Set{Daemon: daemon}
	return []cli.Flag{
		set.String(&c.Mode, "mode", "MODE", "", CategoryCluster,
			"what asks for ports: docker, kubernetes, swarm-mode or cni (required)", "plugin-mode", "cluster-mode"),
		set.String(&c.NetMode, "netmode", "NET_MODE", "", CategoryCluster,
			"encapsulation between hosts: vlan or vxlan (required)", "network-mode"),
		set.String(&c.FwdMode, "fwdmode", "FORWARD_MODE", "", CategoryCluster,
			"forwarding: bridge or routing (required)", "forward-mode"),

		set.String(&c.etcd, "etcd-endpoints", "ETCD_ENDPOINTS", "", CategoryStore,
			"comma-separated URLs of etcd (default "+DefaultEtcdEndpoint+")", "etcd"),
		set.String(&c.Store.CAFile, "etcd-cacert", "ETCD_CACERT", "", CategoryStore,
			"PEM file of the authority that signed etcd's certificates"),
		set.String(&c.Store.CertFile, "etcd-cert", "ETCD_CERT", "", CategoryStore,
			"PEM file of the client certificate shown to etcd"),
		set.String(&c.Store.KeyFile, "etcd-key", "ETCD_KEY", "", CategoryStore,
			"PEM file of the client certificate's key"),
		set.String(&c.Store.ServerName, "etcd-server-name", "ETCD_SERVER_NAME", "", CategoryStore,
			"name expected in etcd's certificate, if not that of the URL"),
		set.String(&c.Store.User, "etcd-user", "ETCD_USER", "", CategoryStore,
			"name:password for etcd; prefer the environment variable, which ps does not show"),
		hidden(set.String(&c.consul, "consul-endpoints", "CONSUL_ENDPOINTS", "", CategoryStore,
			"not supported; use --etcd-endpoints", "consul")),

		set.String(&c.Logging.Level, "log-level", "LOG_LEVEL", logging.DefaultLevel, CategoryLogging,
			"least severe level logged: DEBUG, INFO, WARN or ERROR"),
		set.Bool(&c.Logging.JSON, "use-json-log", "USE_JSON_LOG", CategoryLogging,
			"log one JSON object per line", "json-log"),
		set.Bool(&c.Logging.Syslog, "use-syslog", "USE_SYSLOG", CategoryLogging,
			"log to syslog as well", "syslog"),
		set.String(&c.Logging.SyslogURL, "syslog-url", "SYSLOG_URL", logging.DefaultSyslogURL, CategoryLogging,
			"where syslog listens: udp://host:port, tcp://host:port or unix:///path"),
	}
}

// Set makes flags of one daemon; its methods are also for flags that only one daemon has.
type Set struct{ Daemon string }

// Env returns the source of a flag's value in the environment: CONTIV_<DAEMON>_<name>.
func (s Set) Env(name string) cli.ValueSourceChain {
	return cli.NewValueSourceChain(nonEmptyEnv("CONTIV_" + strings.ToUpper(s.Daemon) + "_" + name))
}

// String declares a text flag.
func (s Set) String(dst *string, name, env, value, category, usage string, aliases ...string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, Aliases: aliases, Sources: s.Env(env), Value: value,
		Destination: dst, Category: category, Usage: usage, OnlyOnce: true}
}

// Bool declares a boolean flag.
func (s Set) Bool(dst *bool, name, env, category, usage string, aliases ...string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Aliases: aliases, Sources: s.Env(env), Destination: dst,
		Category: category, Usage: usage, OnlyOnce: true}
}

func hidden(flag *cli.StringFlag) *cli.StringFlag {
	flag.Hidden = true
	return flag
}

// nonEmptyEnv is an environment variable that counts as unset when it is empty.
type nonEmptyEnv string

func (name nonEmptyEnv) Lookup() (string, bool) {
	value := os.Getenv(string(name))
	return value, value != ""
}
func (name nonEmptyEnv) IsFromEnv() bool  { return true }
func (name nonEmptyEnv) Key() string      { return string(name) }
func (name nonEmptyEnv) String() string   { return "environment variable " + string(name) }
func (name nonEmptyEnv) GoString() string { return "nonEmptyEnv(" + string(name) + ")" }
