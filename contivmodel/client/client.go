// Package client is a client of netmaster's REST interface.
//
// The package has no code per object: the kinds of contivmodel define the path of an object and its decoding, and
// generic functions return the caller's own type:
//
//	c, err := client.New(client.Config{URLs: []string{"http://10.0.0.1:9999", "http://10.0.0.2:9999"}})
//	networks, err := client.List[contivmodel.Network](ctx, c)
//
// A client knows several netmasters. Any of them will do, since followers forward requests to the leader; a
// request is sent to the one that answered last and, if it cannot be reached, to the others in turn. A request
// that a server may have received is repeated only if it changes nothing.
//
// Every error is a *fault.Error. The client asks for problem documents, which carry the kind, and still accepts
// the plain text of older servers.
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

// DefaultTimeout is the time limit of one attempt at one server.
const DefaultTimeout = 30 * time.Second

// connectTimeout limits the wait for a server that does not accept a connection, so that the others are tried
// soon.
const connectTimeout = 5 * time.Second

// wakeTimeout limits how long one of several servers may take to answer anything at all.
const wakeTimeout = 2 * time.Second

// Config has the servers, and how to connect to them.
type Config struct {
	URLs     []string          // base URLs, http or https, tried in turn; or unix:///path, a socket, alone
	Timeout  time.Duration     // of one attempt at one server; 0 is DefaultTimeout
	Token    string            // sent as X-Auth-Token, over https only
	Tokens   map[string]string // by URL; before Token
	Insecure bool              // accept any server certificate
	Warn     func(text string) // is called with warnings that accompany a response; may be nil

	// The files are read again for each connection: neither a new CA nor a new certificate needs another Client.
	// Behind a proxy, the CAs remain those at the time of New.
	CAFile            string // certificates to trust instead of the system's
	CertFile, KeyFile string // client certificate
	ServerName        string // name expected in the server's certificate

	// Used without CAFile: certificates to trust instead of the system's, in PEM, by URL; all of them are valid for
	// every server. A server without an entry may also have a certificate of the system's CAs.
	Authorities map[string]string
}

// Client is safe for concurrent use.
type Client struct {
	bases   []*server
	timeout time.Duration
	warn    func(text string)
	current atomic.Int32 // number of the server that answered last; 0: none yet, the first is 1
}

// server is one of the client's servers.
type server struct {
	*url.URL
	given string // its URL as the caller wrote it
	token string
	http  *http.Client
}

// String returns the server's name in messages.
func (s *server) String() string { return s.given }

// New returns a client. Nothing is sent yet; an unusable URL or certificate is a fault.Invalid.
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

// givenAs returns the name in messages of the server at a URL, or on a socket.
func givenAs(base *url.URL, socket string) string {
	if socket != "" {
		return "unix://" + socket
	}
	return base.String()
}

// way returns the HTTP client for one of the servers; socket is empty unless it listens on one.
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
		// A watch has no end, but its first response has to arrive in time.
		ResponseHeaderTimeout: timeout,
		TLSClientConfig:       tlsConfig,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       30 * time.Second,
	}}, nil
}

// onSocket is the base URL of requests on a socket; localhost is never reached through a proxy.
const onSocket = "http://localhost"

// socket returns the path of the netmaster's socket, if that is the only server; else "".
func (cfg Config) socket() string {
	if len(cfg.URLs) != 1 || !strings.HasPrefix(cfg.URLs[0], "unix://") {
		return ""
	}
	return strings.TrimPrefix(cfg.URLs[0], "unix://")
}

// tls returns the configuration of a connection to one of the servers by the present content of the files.
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

// roots returns the CAs by which one of the servers is verified.
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

// Close closes the idle connections.
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
