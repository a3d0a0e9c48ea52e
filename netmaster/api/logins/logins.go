// Package logins has the routes about accounts: logging in, users, tokens and roles. They are where the original's authenticating
// proxy had them, and exist in clusters that authenticate their clients.
//
//	login.go      logging in with a password, and out
//	openid.go     logging in with the code that a provider of OpenID Connect gave to a browser
//	ldap.go       users of a directory; outside.go bounds the questions to it, and to the provider
//	users.go      local users, and their passwords
//	usercerts.go  certificates of local users
//	apitokens.go  tokens of programs; tokenuse.go when each was last used
//	bindings.go   which user or group has which role
//
// The records of all this in the store are those of package access.
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

// Config is what logins need to know of the daemon, and of the rest of the API.
type Config struct {
	Ledger      master.Ledger // whose plans are judged by who asks
	Now         func() time.Time
	HashCost    accounts.Cost     // of passwords
	HashWorkers *accounts.Workers // that hash them; nil: this process does
	Keyring     *keyring.Keyring  // of secrets in the store; nil: none are kept
	Log         *logrus.Entry
	// Certify makes a certificate of a user for the key of a request, and tells by which authorities.
	Certify func(user string, csr []byte) (signed *x509.Certificate, by pki.Authorities, err error)
}

// Logins serves the routes about accounts, for one term.
type Logins struct {
	config    Config
	hasher    *accounts.Hasher
	guesses   *accounts.Guesses
	directory outside // of users, LDAP
	openID    provider
	uses      *tokenUses // of API tokens
}

// New makes that of a term. The use of tokens is stored while Run runs.
func New(config Config) *Logins {
	return &Logins{config: config, hasher: accounts.NewHasher(config.HashCost, config.HashWorkers), guesses: accounts.NewGuesses(),
		directory: newOutside(), openID: provider{outside: newOutside(), greeting: make(ratelimit.Semaphore, greetedAtOnce)}, uses: newTokenUses()}
}

// AuthPath is where the original's authenticating proxy had its own routes. They are
// served in clusters that ask who somebody is; others have neither users nor roles.
const AuthPath = "/api/v1/auth_proxy"

// Those in whose requests or answers there are secrets.
const (
	loginPath  = AuthPath + "/login"
	usersPath  = AuthPath + "/local_users"
	tokensPath = AuthPath + "/tokens"

	directoryPath = AuthPath + "/ldap_configuration"

	providerPath    = AuthPath + "/openid_configuration"
	openIDPath      = AuthPath + "/openid"
	openIDLoginPath = openIDPath + "/login"
)

// WhoAmIPath is where callers learn who they are and what they may.
const WhoAmIPath = "/api/v1/whoami"

// Routes are the routes about accounts and roles.
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

// HasSecret tells whether there is a secret in the body of a request about accounts, or of its answer.
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
