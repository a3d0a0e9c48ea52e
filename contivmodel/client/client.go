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

	// The files are read again for each connection: neither a new authority nor a new
	// certificate needs another Client. Behind a proxy the authorities stay those of New.
	CAFile            string // certificates to trust instead of the system's
	Authorities       string // the same in PEM, where there is no file
	CertFile, KeyFile string // client certificate
	ServerName        string // name expected in the server's certificate
}

// Client is safe for concurrent use.
type Client struct {
	bases   []*url.URL
	http    *http.Client
	timeout time.Duration
	token   string
	tokens  map[string]string // by URL
	current atomic.Int32      // number of the base that answered last; 0: none yet, the first is 1
}

// New makes a client. Nothing is sent yet; a URL or certificate that cannot be
// used is a fault.Invalid.
func New(cfg Config) (*Client, error) {
	c := &Client{timeout: cfg.Timeout, token: cfg.Token, tokens: map[string]string{}}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	socket, local := cfg.socket()
	if local {
		cfg.URLs = []string{onSocket}
	}
	for _, text := range cfg.URLs {
		base, err := parseBase(text)
		if err != nil {
			return nil, err
		}
		c.bases = append(c.bases, base)
		if token := cfg.Tokens[text]; token != "" {
			c.tokens[base.String()] = token
		}
	}
	if len(c.bases) == 0 {
		return nil, fault.New(fault.Invalid, "no netmaster URL given")
	}
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: min(connectTimeout, c.timeout)}
	c.http = &http.Client{CheckRedirect: redirected, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if local {
				network, address = "unix", socket
			}
			return dialer.DialContext(ctx, network, address)
		},
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			now, err := cfg.tls()
			if err != nil {
				return nil, err
			}
			return (&tls.Dialer{NetDialer: dialer, Config: now}).DialContext(ctx, network, address)
		},
		TLSHandshakeTimeout: dialer.Timeout, // behind a proxy
		// Of a watch, which has no end, the beginning must come in time.
		ResponseHeaderTimeout: c.timeout,
		TLSClientConfig:       tlsConfig,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       30 * time.Second,
	}}
	return c, nil
}

// onSocket is how requests on a socket are addressed; localhost is never asked by a proxy.
const onSocket = "http://localhost"

// socket is the path of the socket on which netmaster is to be asked, if that is all that is given.
func (cfg Config) socket() (path string, is bool) {
	if len(cfg.URLs) != 1 {
		return "", false
	}
	return strings.CutPrefix(cfg.URLs[0], "unix://")
}

// tls is the configuration of a connection by what the files hold now.
func (cfg Config) tls() (*tls.Config, error) {
	t, err := tlsfiles.Files{CA: cfg.CAFile, Cert: cfg.CertFile, Key: cfg.KeyFile}.Client()
	if err != nil {
		return nil, err
	}
	if cfg.Authorities != "" && cfg.CAFile == "" {
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM([]byte(cfg.Authorities)) {
			return nil, fault.New(fault.Invalid, "CA certificates: there is none among those to trust")
		}
	}
	t.ServerName, t.InsecureSkipVerify = cfg.ServerName, cfg.Insecure
	return t, nil
}

// Close drops the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// tokenFor is the token that one of the servers wants.
func (c *Client) tokenFor(base *url.URL) string {
	if token, ok := c.tokens[base.String()]; ok {
		return token
	}
	return c.token
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
