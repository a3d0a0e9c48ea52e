package logins

import (
	"cmp"
	"crypto/sha256"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/openid"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/inet"
	"github.com/contiv/netplugin/utils/secret"
)

// Users of an OpenID Connect provider log in with a browser (package openid): netctl asks where to send it, and
// presents the code that it returns with.

// provider is the configured provider, as of a revision of its record.
type provider struct {
	outside
	greeting ratelimit.Semaphore // limits requests for the login URL
	mu       sync.Mutex
	made     *openid.Provider
	revision int64
}

// errNoProvider is the error without a configuration.
var errNoProvider = fault.New(fault.NotFound, "no OpenID Connect provider is configured")

func providerOf(r ledger.Reader) (mastercfg.OpenID, error) {
	p, err := ledger.Read[mastercfg.OpenID](r, mastercfg.OpenIDKey)
	if fault.Is(err, fault.NotFound) {
		return p, errNoProvider
	}
	return p, err
}

// provider returns the provider of the present configuration.
func (l *Logins) provider() (*openid.Provider, error) {
	var record mastercfg.OpenID
	var revision int64
	err := l.config.Ledger.View(func(r ledger.Reader) (err error) {
		revision = r.Revision(mastercfg.OpenIDKey)
		record, err = providerOf(r)
		return err
	})
	if err != nil {
		return nil, err
	}
	l.openID.mu.Lock()
	defer l.openID.mu.Unlock()
	if l.openID.made != nil && l.openID.revision == revision {
		return l.openID.made, nil
	}
	config := openid.Config{Issuer: record.Issuer, ClientID: record.ClientID, Authorities: record.Authorities,
		NameClaim: record.NameClaim, GroupsClaim: record.GroupsClaim, Scopes: record.Scopes}
	if record.Secret != "" {
		text, err := l.config.Keyring.Open(mastercfg.OpenIDKey, record.Secret)
		if err != nil {
			return nil, err
		}
		config.ClientSecret = secret.Text(text)
	}
	made, err := openid.New(config, l.config.Now)
	if err != nil {
		return nil, err
	}
	if l.openID.made != nil {
		l.openID.made.Close()
	}
	l.openID.made, l.openID.revision = made, revision
	return made, nil
}

// greetedAtOnce is how many requests for the login URL are served at a time. Each takes a moment or, if the
// provider has to be asked, as long as that takes.
const greetedAtOnce = 64

// openIDClient answers the parameters for the browser's request to the provider. No login is needed, so it must not
// occupy the places of logins: all waiting requests share one request to the provider, and only few may wait.
func (l *Logins) openIDClient(r *http.Request) (rest.Reply, error) {
	p, err := l.provider()
	if err != nil {
		return rest.Reply{}, err
	}
	done, err := l.openID.greeting.TryAcquire(logins)
	if err != nil {
		return rest.Reply{}, err
	}
	defer done()
	at, err := p.AuthURL(r.Context())
	if err != nil {
		return rest.Reply{}, l.providerFailed(err)
	}
	c := p.Config()
	return rest.Reply{Body: contivmodel.OpenIDClient{Issuer: c.Issuer, ClientID: c.ClientID, AuthURL: at, Scopes: append([]string{}, c.Scopes...)}}, nil
}

// loginOpenID starts the session of a user with a code from the provider.
func (l *Logins) loginOpenID(r *http.Request) (rest.Reply, error) {
	var sent contivmodel.OpenIDProof
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	for _, f := range []struct{ field, text string }{{"code", sent.Code}, {"verifier", sent.Verifier}, {"nonce", sent.Nonce}, {"redirect_uri", sent.Redirect}} {
		if f.text == "" || len(f.text) > maxProofText {
			return rest.Reply{}, fault.New(fault.Invalid, "%s: want 1 to %d bytes", f.field, maxProofText).WithField(f.field)
		}
	}
	if !isLoopbackRedirect(sent.Redirect) {
		return rest.Reply{}, fault.New(fault.Invalid, "redirect_uri %.100q: want http and an address of loopback", sent.Redirect).WithField("redirect_uri")
	}
	p, err := l.provider()
	if err != nil {
		return rest.Reply{}, err
	}
	done, err := l.openID.asking.TryAcquire(logins)
	if err != nil {
		return rest.Reply{}, err
	}
	defer done()
	// Attempts count from here on, after all checks on our side: each code by itself, so that a client with
	// wrong codes does not lock out others behind the same address.
	from, guess := rest.SourceOf(r), guessKeyOf(sent.Code)
	if wait := l.guesses.Admit(guess, from, l.config.Now()); wait > 0 {
		return rest.Reply{}, tooManyGuesses(wait)
	}
	auth.CallerFrom(r.Context()).SetSubject("somebody of " + p.Config().Issuer)
	who, err := p.Person(r.Context(), openid.Proof{Code: sent.Code, Verifier: sent.Verifier, Redirect: sent.Redirect, Nonce: sent.Nonce})
	switch {
	case fault.Is(err, fault.Denied):
		return rest.Reply{}, rest.Denial{Cause: err, Status: http.StatusUnauthorized}
	case err != nil:
		l.guesses.Unanswered(guess, from, l.config.Now())
		return rest.Reply{}, l.providerFailed(err)
	}
	l.guesses.Unanswered(guess, from, l.config.Now()) // a code is valid once, so it identifies no later user
	auth.CallerFrom(r.Context()).SetSubject(who.Name)
	var token accounts.Token
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		token, err = access.LoginForeign(tx, who.Name, who.Groups, l.config.Now())
		return err
	})
	return rest.Reply{Body: map[string]string{"token": token.Text}, Revision: rev}, err
}

const maxProofText = 4096

// guessKeyOf returns the key under which attempts with a code are counted. It differs from all user names.
func guessKeyOf(code string) string {
	sum := sha256.Sum256([]byte(code))
	return mastercfg.OpenIDPrefix + string(sum[:])
}

// isLoopbackRedirect reports whether a redirect goes to the browser's own machine, where netctl waits for it. A
// code for another destination belongs to another client.
func isLoopbackRedirect(redirect string) bool {
	u, err := url.Parse(redirect)
	return err == nil && u.Scheme == "http" && u.User == nil && inet.IsLoopbackHost(u.Hostname())
}

// providerFailed logs the error, and returns a less detailed one.
func (l *Logins) providerFailed(err error) error {
	if l.openID.trouble.IsNews(err, l.config.Now()) {
		l.config.Log.WithError(err).Warn("login by OpenID Connect")
	}
	return fault.New(fault.Unavailable, "the OpenID Connect provider does not answer as it should: local users can log in")
}

// tooManyGuesses returns the refusal of a client that has to wait before its next attempt.
func tooManyGuesses(wait time.Duration) rest.Denial {
	seconds := time.Duration(math.Ceil(wait.Seconds())) * time.Second // as Retry-After says
	return rest.Denial{Cause: fault.New(fault.Denied, "too many wrong logins: wait %s", seconds), Status: http.StatusTooManyRequests, Wait: wait}
}

func formOfProvider(p mastercfg.OpenID) contivmodel.OpenIDConfig {
	scopes := append([]string{}, p.Scopes...)
	return contivmodel.OpenIDConfig{
		Issuer: &p.Issuer, ClientID: &p.ClientID, Authorities: &p.Authorities, NameClaim: &p.NameClaim,
		GroupsClaim: &p.GroupsClaim, Scopes: &scopes,
	}
}

// intoProvider applies a form to a record. The secret is encrypted for its key.
func (l *Logins) intoProvider(f contivmodel.OpenIDConfig, p *mastercfg.OpenID) error {
	for _, field := range []struct{ from, to *string }{{f.Issuer, &p.Issuer}, {f.ClientID, &p.ClientID}, {f.Authorities, &p.Authorities},
		{f.NameClaim, &p.NameClaim}, {f.GroupsClaim, &p.GroupsClaim}} {
		if field.from != nil {
			*field.to = *field.from
		}
	}
	if f.Scopes != nil {
		p.Scopes = *f.Scopes
	}
	p.NameClaim, p.GroupsClaim = cmp.Or(p.NameClaim, "preferred_username"), cmp.Or(p.GroupsClaim, "groups")
	if err := checkProvider(*p); err != nil || f.Secret == nil {
		return err
	}
	if len(*f.Secret) > maxProviderText {
		return fault.New(fault.TooLarge, "client_secret: more than %d bytes", maxProviderText).WithField("client_secret")
	}
	if p.Secret = ""; *f.Secret == "" {
		return nil
	}
	sealed, err := l.config.Keyring.Seal(mastercfg.OpenIDKey, *f.Secret)
	p.Secret = sealed
	return err
}

const (
	maxProviderText = 1024
	maxScopes       = 32
)

func checkProvider(p mastercfg.OpenID) error {
	for _, f := range []struct{ field, text string }{{"issuer", p.Issuer}, {"client_id", p.ClientID}, {"username_claim", p.NameClaim}, {"groups_claim", p.GroupsClaim}} {
		if f.text == "" || len(f.text) > maxProviderText {
			return fault.New(fault.Invalid, "%s: want 1 to %d bytes", f.field, maxProviderText).WithField(f.field)
		}
	}
	u, err := url.Parse(p.Issuer)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fault.New(fault.Invalid, "issuer %.100q: want an https URL without a query", p.Issuer).WithField("issuer")
	case len(p.Authorities) > maxAuthorities:
		return fault.New(fault.Invalid, "tls_ca: more than %d bytes", maxAuthorities).WithField("tls_ca")
	case len(p.Scopes) > maxScopes || slices.ContainsFunc(p.Scopes, func(s string) bool { return s == "" || len(s) > maxProviderText }):
		return fault.New(fault.Invalid, "scopes: want at most %d, each of 1 to %d bytes", maxScopes, maxProviderText).WithField("scopes")
	}
	_, err = openid.New(openid.Config{Issuer: p.Issuer, Authorities: p.Authorities}, time.Now)
	return err
}

func (l *Logins) getProvider(*http.Request) (rest.Reply, error) {
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		p, err := providerOf(r)
		return rest.Reply{Body: formOfProvider(p)}, err
	}}, nil
}

// putProvider replaces the configuration of the provider; a PATCH changes the fields that it names.
func (l *Logins) putProvider(r *http.Request) (rest.Reply, error) {
	var sent contivmodel.OpenIDConfig
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	isNew := r.Method == http.MethodPut
	var p mastercfg.OpenID
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		if p = (mastercfg.OpenID{}); !isNew {
			if p, err = providerOf(tx); err != nil {
				return err
			}
		}
		if err := l.intoProvider(sent, &p); err != nil {
			return err
		}
		auth.CallerFrom(r.Context()).SetSubject("issuer " + p.Issuer)
		return ledger.Write(tx, mastercfg.OpenIDKey, p)
	})
	code := http.StatusOK
	if isNew {
		code = http.StatusCreated
	}
	return rest.Reply{Code: code, Body: formOfProvider(p), Revision: rev}, err
}

func (l *Logins) deleteProvider(r *http.Request) (rest.Reply, error) {
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		if _, err := providerOf(tx); err != nil {
			return err
		}
		return access.KeepingAdmin(tx, auth.CallerFrom(r.Context()).Who, func() error {
			tx.Delete(mastercfg.OpenIDKey)
			return nil
		})
	})
	return rest.Reply{Code: http.StatusNoContent, Revision: rev}, err
}
