// Package openid authenticates users by an OpenID Connect provider.
//
// A user goes to the provider with a browser, which comes back to netctl on the user's
// machine with a code (the authorization code flow of RFC 6749, with PKCE, RFC 7636,
// and a redirect to loopback, RFC 8252). netmaster exchanges the code for an ID token:
// the client's secret and the token are seen by netmaster and the provider only.
//
// The provider's metadata and keys are cached for an hour; an unknown key is asked
// for at once, as providers rotate theirs. All of it has limits of time and of size: a
// provider that is away, slow or lying costs logins by it, and nothing else. Anybody may
// begin a login, so the provider is asked for its metadata once at a time, and not again for some
// seconds after that has failed.
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

// Limits of what a provider may do to a login.
const (
	timeLimit = 5 * time.Second // of one request
	mostBytes = 1 << 20         // of one answer
	keptFor   = time.Hour       // what it says of itself
	failedFor = 5 * time.Second // until it is asked for that again, where it did not say it
)

// Config is how a provider is reached, and what it is asked for.
type Config struct {
	Issuer       string      // https URL, as it is in its tokens
	ClientID     string      // by which it knows this cluster
	ClientSecret secret.Text // empty: the client is a public one
	Authorities  string      // PEM, by which its certificate is known; empty: those of the system
	NameClaim    string      // that has the name of a person
	GroupsClaim  string      // that has the groups
	Scopes       []string    // beside openid
}

// Provider is one that is asked. It may be used by many at a time.
type Provider struct {
	config Config
	now    func() time.Time
	client *http.Client

	asking singleflight.Group // by which the two below are read and written
	known  *discovered
	failed *failure
}

// failure is why a provider did not say anything of itself.
type failure struct {
	err   error
	since time.Time
}

// discovered is what a provider says of itself.
type discovered struct {
	provider *oidc.Provider
	endpoint oauth2.Endpoint
	since    time.Time
}

// New prepares one; nobody is asked yet.
func New(config Config, now func() time.Time) (*Provider, error) {
	security := &tls.Config{MinVersion: tls.VersionTLS12}
	if config.Authorities != "" {
		security.RootCAs = x509.NewCertPool()
		if !security.RootCAs.AppendCertsFromPEM([]byte(config.Authorities)) {
			return nil, fault.New(fault.Invalid, "issuer %s: no certificate in the authorities that it is known by", config.Issuer)
		}
	}
	return &Provider{config: config, now: now, client: &http.Client{
		Timeout:   timeLimit,
		Transport: bounding{&http.Transport{TLSClientConfig: security, Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 1}},
		CheckRedirect: func(*http.Request, []*http.Request) error { // to where nobody has configured it
			return errors.New("it redirects to elsewhere")
		},
	}}, nil
}

// Config is what the provider was made of.
func (p *Provider) Config() Config { return p.config }

// Format implements fmt.Formatter: package fmt would print the secret below a field that is
// not exported.
func (p *Provider) Format(out fmt.State, _ rune) { _, _ = io.WriteString(out, p.config.Issuer) } // as fmt does itself

// Close lets connections to the provider go.
func (p *Provider) Close() { p.client.CloseIdleConnections() }

// AuthURL is where browsers are sent.
func (p *Provider) AuthURL(ctx context.Context) (string, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	return d.endpoint.AuthURL, nil
}

// Proof is what a browser has come back with, and what its way began with.
type Proof struct {
	Code     string
	Verifier string // of PKCE
	Redirect string // where the browser came to
	Nonce    string
}

// Person tells who it is that a proof is of. It fails as denied if it is of nobody, and as
// unavailable if the provider does not say.
func (p *Provider) Person(ctx context.Context, proof Proof) (Person, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return Person{}, err
	}
	asked := oauth2.Config{ClientID: p.config.ClientID, ClientSecret: string(p.config.ClientSecret), Endpoint: d.endpoint, RedirectURL: proof.Redirect}
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

// fetchingKeys is in the errors of package oidc if the provider does not tell its keys, of which it keeps only the text.
const fetchingKeys = "failed to verify signature: fetching keys "

// algorithms are those by which ID tokens may be signed: with the private key of a pair whose
// public one the provider shows. Whoever knows a public key could make a token of any other.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// within tells whether something that has begun still holds; the clock may have been put back.
func (p *Provider) within(limit time.Duration, since time.Time) bool {
	age := p.now().Sub(since)
	return age >= 0 && age < limit
}

// discover is what the provider says of itself, not older than an hour. All who ask at a time
// wait for one answer, at most timeLimit.
func (p *Provider) discover(ctx context.Context) (*discovered, error) {
	found, err, _ := p.asking.Do("", func() (any, error) {
		switch {
		case p.known != nil && p.within(keptFor, p.known.since):
			return p.known, nil
		case p.failed != nil && p.within(failedFor, p.failed.since):
			return nil, p.failed.err
		}
		found, err := p.ask(context.WithoutCancel(ctx)) // others wait, too
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

// ask has the provider say what it is.
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
	found.endpoint.AuthStyle = oauth2.AuthStyleInHeader // what is meant where it says nothing
	if p.config.ClientSecret == "" || len(said.Methods) > 0 && !slices.Contains(said.Methods, "client_secret_basic") {
		found.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return found, nil
}

// refused tells a code that is not good from a provider that cannot be asked.
func (p *Provider) refused(err error) error {
	var said *oauth2.RetrieveError
	if errors.As(err, &said) {
		err = fmt.Errorf("it says %s: %s %s", said.Response.Status, said.ErrorCode, said.ErrorDescription) // not what else is in the answer
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

// short is the beginning of an error, in which there may be whole answers.
func short(err error) string {
	const most = 300
	text := strings.ToValidUTF8(err.Error(), "?")
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}

// bounding ends answers that are too long.
type bounding struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounding) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = &bounded{resp.Body, mostBytes}
	}
	return resp, err
}

// CloseIdleConnections is what http.Client asks for.
func (b bounding) CloseIdleConnections() {
	b.RoundTripper.(*http.Transport).CloseIdleConnections()
}

// bounded is a body that fails after so many bytes.
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
