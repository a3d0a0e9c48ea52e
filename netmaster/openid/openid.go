// Package openid authenticates users by an OpenID Connect provider.
//
// A user visits the provider with a browser, which is redirected to netctl on the user's machine with a code (the
// authorization code flow of RFC 6749, with PKCE, RFC 7636, and a redirect to loopback, RFC 8252). netmaster
// exchanges the code for an ID token: only netmaster and the provider see the client's secret and the token.
//
// The provider's metadata and keys are cached for an hour; an unknown key is requested at once, as providers
// rotate theirs. All of it has limits of time and size: a provider that is unavailable, slow or malicious only
// makes its logins fail. Any client may begin a login, so there is only one request for the metadata at a time,
// and none for some seconds after a failure.
package openid

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Limits for a provider.
const (
	timeLimit = 5 * time.Second // of one request
	mostBytes = 1 << 20         // of one answer
	keptFor   = time.Hour       // metadata
	failedFor = 5 * time.Second // until the next attempt after a failure
)

// Config is the configuration of a provider and its client.
type Config struct {
	Issuer       string      // https URL, as in its tokens
	ClientID     string      // of this cluster
	ClientSecret secret.Text // empty: a public client
	Authorities  string      // PEM, the CAs of its certificate; empty: the system's
	NameClaim    string      // claim with the user name
	GroupsClaim  string      // claim with the groups
	Scopes       []string    // besides openid
}

// Provider is a client of a provider. It may be used concurrently.
type Provider struct {
	config Config
	now    func() time.Time
	client *http.Client

	asking singleflight.Group // guards the two below
	known  *discovered
	failed *failure
}

// failure is the last failure to get the metadata.
type failure struct {
	err   error
	since time.Time
}

// discovered is the provider's metadata.
type discovered struct {
	provider *oidc.Provider
	endpoint oauth2.Endpoint
	since    time.Time
}

// New returns a client; it sends no request yet.
func New(config Config, now func() time.Time) (*Provider, error) {
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if config.Authorities != "" {
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM([]byte(config.Authorities)) {
			return nil, fault.New(fault.Invalid, "issuer %s: no certificate in the authorities that it is known by", config.Issuer)
		}
	}
	return &Provider{config: config, now: now, client: &http.Client{
		Timeout: timeLimit,
		Transport: bounding{&http.Transport{
			TLSClientConfig: security, Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute,
			MaxIdleConnsPerHost: 1,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { // to an address that is not configured
			return errors.New("it redirects to elsewhere")
		},
	}}, nil
}

// Config returns the provider's configuration.
func (p *Provider) Config() Config { return p.config }

// Format implements fmt.Formatter: package fmt would print the secret, as it is below an unexported field.
func (p *Provider) Format(out fmt.State, _ rune) { _, _ = io.WriteString(out, p.config.Issuer) } // as fmt does itself

// Close closes idle connections to the provider.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// AuthURL returns the URL of the provider's login page.
func (p *Provider) AuthURL(ctx context.Context) (string, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return d.endpoint.AuthURL, nil
}

// Proof is what a browser has brought back, and the secrets of the login's beginning.
type Proof struct {
	Code     string
	Verifier string // of PKCE
	Redirect string // redirect URL of the login
	Nonce    string
}

// Person returns the user that a proof authenticates. Errors: fault.Denied if it is invalid, fault.Unavailable if
// the provider does not answer.
func (p *Provider) Person(ctx context.Context, proof Proof) (Person, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	asked := oauth2.Config{
		ClientID: p.config.ClientID, ClientSecret: string(p.config.ClientSecret), Endpoint: d.endpoint,
		RedirectURL: proof.Redirect,
	}
	given, err := asked.Exchange(oidc.ClientContext(ctx, p.client), proof.Code, oauth2.VerifierOption(proof.Verifier))
	if err != nil {
		return Person{}, p.refused(err)
	}
	raw, _ := given.Extra("id_token").(string)
	if raw == "" {
		return Person{}, p.denied(errors.New("it gave no ID token"))
	}
	token, err := d.provider.Verifier(&oidc.Config{ClientID: p.config.ClientID, SupportedSigningAlgs: algorithms, SkipExpiryCheck: true}).Verify(ctx, raw)
	if err != nil {
		if strings.Contains(err.Error(), fetchingKeys) || ctx.Err() != nil {
			return Person{}, p.unavailable(err)
		}
		return Person{}, p.denied(err)
	}
	who, err := p.read(token, proof.Nonce)
	if err != nil {
		return Person{}, p.denied(err)
	}
	return who, nil
}

// fetchingKeys is part of the errors of package oidc if the keys of the provider are not available: the package wraps
// only the text of the cause.
const fetchingKeys = "failed to verify signature: fetching keys "

// algorithms are the accepted signatures of ID tokens: all by a private key, with a published public key. With an
// HMAC, anyone who knows the public key could make a token.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// within reports whether less than limit has passed since a time; false if the clock was set back.
func (p *Provider) within(limit time.Duration, since time.Time) bool {
	age := p.now().Sub(since)
	return age >= 0 && age < limit
}

// discover returns the provider's metadata, not older than an hour. Concurrent callers wait for one request, at
// most timeLimit.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	found, err, _ := p.asking.Do("", func() (any, error) {
		switch {
		case p.known != nil && p.within(keptFor, p.known.since):
			return p.known, nil
		case p.failed != nil && p.within(failedFor, p.failed.since):
			return nil, p.failed.err
		}
		found, err := p.ask(context.WithoutCancel(ctx)) // other callers wait, too
		if err != nil {
			p.failed = &failure{err, p.now()}
			return nil, err
		}
		p.known, p.failed = found, nil
		return found, nil
	})
	if err != nil {
		return nil, err
	}
	return found.(*discovered), nil
}

// ask requests the provider's metadata.
func (p *Provider) ask(ctx context.Context) (*discovered, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.config.Issuer)
	if err != nil {
		return nil, p.unavailable(err)
	}
	said := struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
	}{}
	if err := provider.Claims(&said); err != nil {
		return nil, p.unavailable(err)
	}
	found := &discovered{provider: provider, endpoint: provider.Endpoint(), since: p.now()}
	for _, address := range []string{found.endpoint.AuthURL, found.endpoint.TokenURL, said.Keys} {
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, p.unavailable(fmt.Errorf("it names %q, which is no https URL", address))
		}
	}
	found.endpoint.AuthStyle = oauth2.AuthStyleInHeader // the default
	if p.config.ClientSecret == "" || len(said.Methods) > 0 && !slices.Contains(said.Methods, "client_secret_basic") {
		found.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return found, nil
}

// refused returns fault.Denied for an invalid code, and fault.Unavailable for other errors of the provider.
func (p *Provider) refused(err error) error {
	var said *oauth2.RetrieveError
	if errors.As(err, &said) {
		err = fmt.Errorf("it says %s: %s %s", said.Response.Status, said.ErrorCode, said.ErrorDescription) // without the rest of the answer
		if said.ErrorCode == "invalid_grant" {
			return p.denied(err)
		}
	}
	return p.unavailable(err)
}

func (p *Provider) unavailable(err error) error {
	return fault.New(fault.Unavailable, "issuer %s: %s", p.config.Issuer, short(err))
}

func (p *Provider) denied(err error) error {
	return fault.New(fault.Denied, "issuer %s: %s", p.config.Issuer, short(err))
}

// short returns the beginning of an error, which may contain whole answers.
func short(err error) string {
	const most = 300
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}

// bounding limits the size of answers.
type bounding struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounding) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &bounded{resp.Body, mostBytes}
	}
	return resp, err
}

// CloseIdleConnections is called by http.Client.
func (b bounding) CloseIdleConnections() {
	b.RoundTripper.(*http.Transport).CloseIdleConnections()
}

// bounded is a body that returns an error after a number of bytes.
type bounded struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(to []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("more than %d bytes of an answer", mostBytes)
	}
	n, err := b.ReadCloser.Read(to[:min(len(to), b.left)])
	b.left -= n
	return n, err
}
