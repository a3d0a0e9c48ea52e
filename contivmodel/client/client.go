// Package client talks to netmaster's REST interface.
//
// The package has no code per object: the kinds of contivmodel say under which
// path an object lives and how it is decoded, and generic functions give the
// caller its own type back:
//
//	c, err := client.New(client.Config{URLs: []string{"http://10.0.0.1:9999", "http://10.0.0.2:9999"}})
//	networks, err := client.List[contivmodel.Network](ctx, c)
//
// A client knows several netmasters. Any of them will do, since followers pass
// requests on to the leader; a request goes to the one that answered last and,
// if it cannot be reached, to the others in turn. What may have been received
// is only repeated if it changes nothing.
//
// Every error is a *fault.Error. The client asks for problem documents, which
// carry the kind, and still understands the plain text of older servers.
package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/tlsfiles"
)

// DefaultTimeout is how long one attempt at one server may take.
const DefaultTimeout = 30 * time.Second

// connectTimeout bounds the wait for a server that does not even accept a
// connection, so that the others are tried soon.
const connectTimeout = 5 * time.Second

// wakeTimeout is how long one of several servers may take to show that it
// answers at all.
const wakeTimeout = 2 * time.Second

// Config says whom to talk to, and how.
type Config struct {
	URLs     []string          // base URLs, http or https, tried in turn; or unix:///path, a socket, alone
	Timeout  time.Duration     // of one attempt at one server; 0 is DefaultTimeout
	Token    string            // sent as X-Auth-Token, over https only
	Tokens   map[string]string // by URL; before Token
	Insecure bool              // accept any server certificate
	Warn     func(text string) // is given what a server warns of beside its answer; nil: nobody is

	// The files are read again for each connection: neither a new authority nor a new
	// certificate needs another Client. Behind a proxy the authorities stay those of New.
	CAFile            string // certificates to trust instead of the system's
	CertFile, KeyFile string // client certificate
	ServerName        string // name expected in the server's certificate

	// Without CAFile, by URL in PEM: certificates to trust instead of the system's at all servers. One
	// that has none here may be known by the system's, too.
	Authorities map[string]string
}

// Client is safe for concurrent use.
type Client struct {
	bases   []*server
	timeout time.Duration
	warn    func(text string)
	current atomic.Int32 // number of the base that answered last; 0: none yet, the first is 1
}

// server is one of those that a client knows.
type server struct {
	*url.URL
	given string // as the caller calls it
	token string
	http  *http.Client
}

// String is how people know it.
func (s *server) String() string { return s.given }

// New makes a client. Nothing is sent yet; a URL or certificate that cannot be
// used is a fault.Invalid.
func New(cfg Config) (*Client, error) {
	c := &Client{timeout: cfg.Timeout, warn: cfg.Warn}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	socket := cfg.socket()
	for _, text := range cfg.URLs {
		address := text
		if socket != "" {
			address = onSocket
		}
		base, err := parseBase(address)
		if err != nil {
			return nil, err
		}
		way, err := cfg.way(text, socket, c.timeout)
		if err != nil {
			return nil, err
		}
		c.bases = append(c.bases, &server{base, givenAs(base, socket), cmp.Or(cfg.Tokens[text], cfg.Token), way})
	}
	if len(c.bases) == 0 {
		return nil, fault.New(fault.Invalid, "no netmaster URL given")
	}
	return c, nil
}

// givenAs is what people are told of a server that is asked at a URL, or on a socket.
func givenAs(base *url.URL, socket string) string {
	if socket != "" {
		return "unix://" + socket
	}
	return base.String()
}

// way is how one of the servers is asked; socket is empty if it is not asked on one.
func (cfg Config) way(server, socket string, timeout time.Duration) (*http.Client, error) {
	tlsConfig, err := cfg.tls(server)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: min(connectTimeout, timeout)}
	return &http.Client{CheckRedirect: redirected, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if socket != "" {
				network, address = "unix", socket
			}
			return dialer.DialContext(ctx, network, address)
		},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			now, err := cfg.tls(server)
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{NetDialer: dialer, Config: now}).DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: dialer.Timeout, // behind a proxy
		// Of a watch, which has no end, the beginning must come in time.
		ResponseHeaderTimeout: timeout,
		TLSClientConfig:       tlsConfig,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       30 * time.Second,
	}}, nil
}

// onSocket is how requests on a socket are addressed; localhost is never asked by a proxy.
const onSocket = "http://localhost"

// socket is the path of the socket on which netmaster is to be asked, if that is all that is given; else it is empty.
func (cfg Config) socket() string {
	if len(cfg.URLs) != 1 || !strings.HasPrefix(cfg.URLs[0], "unix://") {
		return ""
	}
	return strings.TrimPrefix(cfg.URLs[0], "unix://")
}

// tls is the configuration of a connection to one of the servers by what the files hold now.
func (cfg Config) tls(server string) (*tls.Config, error) {
	t, err := tlsfiles.Files{CA: cfg.CAFile, Cert: cfg.CertFile, Key: cfg.KeyFile}.Client()
	if err != nil {
		return nil, err
	}
	if len(cfg.Authorities) > 0 && cfg.CAFile == "" {
		if t.RootCAs, err = cfg.roots(server); err != nil {
			return nil, err
		}
	}
	t.ServerName, t.InsecureSkipVerify = cfg.ServerName, cfg.Insecure
	return t, nil
}

// roots are the authorities that one of the servers is known by.
func (cfg Config) roots(server string) (all *x509.CertPool, err error) {
	all = x509.NewCertPool()
	if cfg.Authorities[server] == "" {
		if all, err = x509.SystemCertPool(); err != nil {
			return nil, fault.New(fault.Invalid, "CA certificates of the system: %w", err)
		}
	}
	for url, pem := range cfg.Authorities {
		if pem != "" && !all.AppendCertsFromPEM([]byte(pem)) {
			return nil, fault.New(fault.Invalid, "CA certificates: there is none among those to trust for %s", url)
		}
	}
	return all, nil
}

// Close drops the idle connections.
func (c *Client) Close() {
	for _, base := range c.bases {
		base.http.CloseIdleConnections()
	}
}

func parseBase(text string) (*url.URL, error) {
	base, err := url.Parse(strings.TrimSuffix(strings.TrimSpace(text), "/"))
	switch {
	case !strings.Contains(text, "://") || err == nil && base.Scheme != "http" && base.Scheme != "https":
		return nil, fault.New(fault.Invalid, "netmaster URL %q: must begin with http:// or https://", text)
	case err != nil:
		return nil, fault.New(fault.Invalid, "netmaster URL %q: %w", text, err)
	case base.Host == "":
		return nil, fault.New(fault.Invalid, "netmaster URL %q: no host", text)
	}
	return base, nil
}
