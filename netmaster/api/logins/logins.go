// Package logins has the routes of accounts: logging in, users, tokens and roles. They have the paths of the
// original's authenticating proxy, and exist in clusters that authenticate their clients.
//
//	login.go      login with a password, and logout
//	openid.go     login with the code that an OpenID Connect provider gave to a browser
//	ldap.go       users of a directory; outside.go limits the requests to it, and to the provider
//	users.go      local users, and their passwords
//	usercerts.go  certificates of local users
//	apitokens.go  tokens of programs; tokenuse.go their last use
//	bindings.go   roles of users and groups
//
// The records in the store are those of package access.
package logins

import (
	"crypto/x509"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/ratelimit"
	"github.com/contiv/netplugin/netmaster/rights"
)

// Config configures the logins.
type Config struct {
	Ledger      master.Ledger // authorizes plans by their caller
	Now         func() time.Time
	HashCost    accounts.Cost     // cost of hashing passwords
	HashWorkers *accounts.Workers // processes that hash; nil: this process does
	Keyring     *keyring.Keyring  // encrypts secrets in the store; nil: there are no secrets
	Log         *logrus.Entry
	// Certify issues a certificate of a user for the key of a request, and returns the CAs.
	Certify func(user string, csr []byte) (signed *x509.Certificate, by pki.Authorities, err error)
}

// Logins serves the routes of accounts for one term.
type Logins struct {
	config    Config
	hasher    *accounts.Hasher
	guesses   *accounts.Guesses
	directory outside // LDAP
	openID    provider
	uses      *tokenUses // last use of API tokens
}

// New returns the logins of a term. The use of tokens is stored while Run runs.
func New(config Config) *Logins {
	return &Logins{config: config, hasher: accounts.NewHasher(config.HashCost, config.HashWorkers), guesses: accounts.NewGuesses(),
		directory: newOutside(), openID: provider{outside: newOutside(), greeting: make(ratelimit.Semaphore, greetedAtOnce)}, uses: newTokenUses()}
}

// AuthPath is the root of the routes of the original's authenticating proxy. Only secured clusters serve them;
// others have neither users nor roles.
const AuthPath = "/api/v1/auth_proxy"

// Paths whose requests or answers contain secrets.
const (
	loginPath  = AuthPath + "/login"
	usersPath  = AuthPath + "/local_users"
	tokensPath = AuthPath + "/tokens"

	directoryPath = AuthPath + "/ldap_configuration"

	providerPath    = AuthPath + "/openid_configuration"
	openIDPath      = AuthPath + "/openid"
	openIDLoginPath = openIDPath + "/login"
)

// WhoAmIPath answers the identity and the rights of the caller.
const WhoAmIPath = "/api/v1/whoami"

// Routes returns the routes of accounts and roles.
func (l *Logins) Routes() []rest.Route {
	const user, binding, token, directory = usersPath, AuthPath + "/authorizations", tokensPath, directoryPath
	return []rest.Route{
		rest.At(loginPath, rights.Public, rest.Methods{http.MethodPost: l.login}),
		rest.At(openIDPath, rights.Public, rest.Methods{http.MethodGet: l.openIDClient}),
		rest.At(openIDLoginPath, rights.Public, rest.Methods{http.MethodPost: l.loginOpenID}),
		rest.At(AuthPath+"/version", rights.Public, rest.Methods{http.MethodGet: proxyVersion}),
		rest.At(AuthPath+"/health", rights.Public, rest.Methods{http.MethodGet: proxyHealth}),
		rest.At(AuthPath+"/logout", rights.Known, rest.Methods{http.MethodPost: l.logout}),
		rest.At(WhoAmIPath, rights.Known, rest.Methods{http.MethodGet: l.whoAmI}),

		rest.At(user, rights.Access, rest.Methods{http.MethodGet: l.listUsers, http.MethodPost: l.createUser}),
		rest.At(user+"/{user}", rights.Known, rest.Methods{http.MethodGet: l.getUser, http.MethodPatch: l.changeUser, http.MethodDelete: l.deleteUser}),
		rest.At(user+"/{user}/certificates", rights.Known, rest.Methods{http.MethodGet: l.listUserCerts, http.MethodPost: l.createUserCert, http.MethodDelete: l.dropUserCerts}),
		rest.At(AuthPath+"/sessions/{user}", rights.Access, rest.Methods{http.MethodDelete: l.endSessions}),
		rest.At(binding, rights.Known, rest.Methods{http.MethodGet: l.listBindings, http.MethodPost: l.bind}),
		rest.At(binding+"/{id}", rights.Known, rest.Methods{http.MethodGet: l.getBinding, http.MethodDelete: l.unbind}),
		rest.At(token, rights.Access, rest.Methods{http.MethodGet: l.listTokens, http.MethodPost: l.createToken}),
		rest.At(directory, rights.Access, rest.Methods{http.MethodGet: l.getDirectory, http.MethodPut: l.putDirectory, http.MethodPatch: l.putDirectory, http.MethodDelete: l.deleteDirectory}),
		rest.At(providerPath, rights.Access, rest.Methods{http.MethodGet: l.getProvider, http.MethodPut: l.putProvider, http.MethodPatch: l.putProvider, http.MethodDelete: l.deleteProvider}),
		rest.At(token+"/{name}", rights.Access, rest.Methods{http.MethodDelete: l.deleteToken}),
	}
}

// HasSecret reports whether the body of an account request, or of its answer, has a secret.
func HasSecret(r *http.Request) bool {
	switch at := path.Clean(r.URL.Path); at {
	case loginPath, openIDLoginPath, usersPath, tokensPath:
		return r.Method == http.MethodPost
	case directoryPath, providerPath:
		return r.Method == http.MethodPut || r.Method == http.MethodPatch
	default:
		return r.Method == http.MethodPatch && strings.HasPrefix(at, usersPath+"/")
	}
}
