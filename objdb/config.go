package objdb

import (
	"crypto/tls"
	"net/url"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/tlsfiles"
)

const (
	defaultDialTimeout    = 5 * time.Second
	defaultRequestTimeout = 5 * time.Second
)

// Config is the address of the store and how to connect to it.
type Config struct {
	Endpoints []string // URLs; all members of the cluster
	// OneAtATime uses one endpoint, over one connection, and another one if that fails. Otherwise there is a
	// connection to each, used in turn.
	OneAtATime bool

	CAFile     string // trusted CA; empty: the system's
	CertFile   string // client certificate, with KeyFile
	KeyFile    string
	ServerName string // expected name in the server's certificate; empty: the endpoint's host

	// TLS replaces the files, and is called for each connection. An error means that no connection is possible
	// yet; nil that this one is plain, to a store that does not use TLS yet. Endpoints are https then.
	TLS func() (*tls.Config, error)

	User, Password string

	Values Values // encrypts and decrypts values; nil: values are plain, and encrypted ones cannot be read

	DialTimeout    time.Duration // limit of authentication; default 5 s
	RequestTimeout time.Duration // limit of each single request; default 5 s

	Log *logrus.Entry
	Now func() time.Time // clock for the end of a term; default sinceBoot
}

// sinceBoot returns the time of a clock that is never set and that continues while the machine is suspended, like
// the store's clock. Time differences of time.Now do not include suspension.
func sinceBoot() time.Time {
	var since unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil { // a kernel before 2.6.39
		return time.Now()
	}
	return time.Unix(since.Unix())
}

// withDefaults returns the configuration with every optional field set.
func (c Config) withDefaults() Config {
	if c.DialTimeout <= 0 {
		c.DialTimeout = defaultDialTimeout
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = defaultRequestTimeout
	}
	if c.Values == nil {
		c.Values = noValues{}
	}
	if c.Log == nil {
		c.Log = logrus.WithField("component", "objdb")
	}
	if c.Now == nil {
		c.Now = sinceBoot
	}
	return c
}

// check reports errors that can be found without a connection.
func (c Config) check() error {
	if len(c.Endpoints) == 0 {
		return fault.New(fault.Invalid, "etcd endpoints: none given")
	}
	scheme := ""
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		switch {
		case err != nil:
			return fault.New(fault.Invalid, "etcd endpoint %q: %w", e, err)
		case u.Scheme != "http" && u.Scheme != "https":
			return fault.New(fault.Invalid, "etcd endpoint %q: not an http or https URL", e)
		case u.Hostname() == "" || u.Port() == "":
			return fault.New(fault.Invalid, "etcd endpoint %q: host and port are required", e)
		case u.Path != "" && u.Path != "/":
			return fault.New(fault.Invalid, "etcd endpoint %q: has a path", e)
		case u.Scheme != scheme && scheme != "": // a client uses TLS with all endpoints or with none
			return fault.New(fault.Invalid, "etcd endpoints %q and %q: http and https cannot be mixed", c.Endpoints[0], e)
		}
		scheme = u.Scheme
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return fault.New(fault.Invalid, "etcd client certificate %q, key %q: both or none are required", c.CertFile, c.KeyFile)
	}
	if c.User != "" && c.Password == "" {
		return fault.New(fault.Invalid, "etcd user %q: has no password", c.User)
	}
	return nil
}

// tls returns the TLS configuration; nil if no endpoint uses TLS.
func (c Config) tls() (*tls.Config, error) {
	if c.TLS != nil {
		return c.TLS()
	}
	secure := false
	for _, e := range c.Endpoints {
		if u, err := url.Parse(e); err == nil && u.Scheme == "https" {
			secure = true
		}
	}
	if !secure {
		return nil, nil
	}
	t, err := tlsfiles.Files{CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile}.Client()
	if err != nil {
		return nil, fault.New(fault.Invalid, "etcd: %w", err)
	}
	t.ServerName = c.ServerName
	return t, nil
}
