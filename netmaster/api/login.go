package api

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/fault"
)

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

// accountRoutes are the routes about who may log in and who may what.
func (a *API) accountRoutes() []route {
	const user, binding, token, directory = usersPath, AuthPath + "/authorizations", tokensPath, directoryPath
	return []route{
		{loginPath, rights.Public, methods{http.MethodPost: a.login}},
		{openIDPath, rights.Public, methods{http.MethodGet: a.openIDClient}},
		{openIDLoginPath, rights.Public, methods{http.MethodPost: a.loginOpenID}},
		{AuthPath + "/version", rights.Public, methods{http.MethodGet: proxyVersion}},
		{AuthPath + "/health", rights.Public, methods{http.MethodGet: proxyHealth}},
		{AuthPath + "/logout", rights.Known, methods{http.MethodPost: a.logout}},
		{WhoAmIPath, rights.Known, methods{http.MethodGet: a.whoAmI}},

		{user, rights.Access, methods{http.MethodGet: a.listUsers, http.MethodPost: a.createUser}},
		{user + "/{user}", rights.Known, methods{http.MethodGet: a.getUser, http.MethodPatch: a.changeUser, http.MethodDelete: a.deleteUser}},
		{user + "/{user}/certificates", rights.Known, methods{http.MethodGet: a.listUserCerts, http.MethodPost: a.createUserCert, http.MethodDelete: a.dropUserCerts}},
		{binding, rights.Known, methods{http.MethodGet: a.listBindings, http.MethodPost: a.bind}},
		{binding + "/{id}", rights.Known, methods{http.MethodGet: a.getBinding, http.MethodDelete: a.unbind}},
		{token, rights.Access, methods{http.MethodGet: a.listTokens, http.MethodPost: a.createToken}},
		{directory, rights.Access, methods{http.MethodGet: a.getDirectory, http.MethodPut: a.putDirectory, http.MethodPatch: a.putDirectory, http.MethodDelete: a.deleteDirectory}},
		{providerPath, rights.Access, methods{http.MethodGet: a.getProvider, http.MethodPut: a.putProvider, http.MethodPatch: a.putProvider, http.MethodDelete: a.deleteProvider}},
		{token + "/{name}", rights.Access, methods{http.MethodDelete: a.deleteToken}},
	}
}

// errWrongLogin is said of users who do not exist, too.
var errWrongLogin = denial{error: fault.New(fault.Denied, "Invalid username/password"), code: http.StatusUnauthorized}

// login begins a session. Which of the two was wrong is not told, and takes no other time.
func (a *API) login(r *http.Request) (reply, error) {
	var sent struct{ Username, Password string }
	if err := readInto(r, &sent); err != nil {
		return reply{}, err
	}
	if sent.Username == "" || sent.Password == "" {
		return reply{}, fault.New(fault.Invalid, "username and password: both are wanted")
	}
	account, from := sent.Username, sourceOf(r)
	if accounts.CheckName(account) != nil {
		account = "" // nobody has this name
	}
	askingOf(r.Context()).about = account
	hash, local := a.hashOf(account)
	guess := account
	if !local { // to a directory all spellings are one account, and they share their guesses
		guess = strings.ToLower(account)
	}
	if wait := a.guesses.Admit(guess, from, a.config.Now()); wait > 0 {
		return reply{}, tooManyGuesses(wait)
	}
	if !local && account != "" && !a.isLocal(account) {
		if groups, found, err := a.groupsOf(r.Context(), account, sent.Password); found {
			return a.loginForeign(r, guess, groups, err)
		}
	}
	verdict := accounts.Verdict{}
	if len(sent.Password) <= accounts.MaxPassword { // a longer one is nobody's
		var err error
		if verdict, err = a.hasher.Verify(r.Context(), hash, sent.Password, a.guesses.Rank(guess, from, a.config.Now())); err != nil {
			a.guesses.Unjudged(guess, from)
			return reply{}, err
		}
	}
	if !verdict.Right {
		return reply{}, errWrongLogin
	}
	a.guesses.Right(guess, from, a.config.Now()) // whatever becomes of the session
	renewed := ""
	if verdict.Renew {
		var err error
		if renewed, err = a.hasher.Hash(r.Context(), sent.Password); err != nil {
			return reply{}, err
		}
	}
	var token accounts.Token
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		token, err = access.Login(tx, account, hash, renewed, a.config.Now())
		return err
	})
	if _, is := denied(err); is {
		return reply{}, errWrongLogin
	}
	return reply{body: map[string]string{"token": token.Text}, revision: rev}, err
}

// loginForeign begins the session of a user whom the directory knows, or not, by his name in lower case.
func (a *API) loginForeign(r *http.Request, account string, groups []string, err error) (reply, error) {
	switch {
	case fault.Is(err, fault.Denied):
		return reply{}, errWrongLogin
	case err != nil:
		a.guesses.Unanswered(account, sourceOf(r))
		if a.directory.trouble.isNews(err, a.config.Now()) {
			a.config.Log.WithError(err).Warn("login of a user of the directory")
		}
		return reply{}, fault.New(fault.Unavailable, "the directory of users does not answer: local users can log in")
	}
	a.guesses.Right(account, sourceOf(r), a.config.Now()) // whatever becomes of the session
	var token accounts.Token
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		token, err = access.LoginForeign(tx, account, groups, a.config.Now())
		return err
	})
	if _, is := denied(err); is {
		return reply{}, errWrongLogin
	}
	return reply{body: map[string]string{"token": token.Text}, revision: rev}, err
}

// isLocal tells whether there is a local user of a name as a directory compares names, also one who is disabled.
func (a *API) isLocal(name string) (local bool) {
	_ = a.ledger.View(func(r ledger.Reader) error {
		local = access.HasUser(r, name)
		return nil
	})
	return local
}

// hashOf is the stored hash of a user's password; empty: nobody can log in as him. local tells whether
// there is such a user, also one who is disabled.
func (a *API) hashOf(name string) (hash string, local bool) {
	_ = a.ledger.View(func(r ledger.Reader) error { // the plan of the login reports what cannot be read
		user, err := access.UserAt(r, name)
		if err == nil && !user.Disabled {
			hash = user.Password
		}
		local = !fault.Is(err, fault.NotFound) // what cannot be read is no reason to ask elsewhere
		return nil
	})
	return hash, local
}

// sourceOf is the address a request comes from, behind a netmaster that has passed it on.
func sourceOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// logout ends the session whose token was shown.
func (a *API) logout(r *http.Request) (reply, error) {
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		access.Logout(tx, askingOf(r.Context()).who)
		return nil
	})
	return reply{code: http.StatusNoContent, revision: rev}, err
}

// caller is the answer of whoami.
type caller struct {
	Identity string     `json:"identity"` // as in "user/ann"
	Mode     string     `json:"mode"`     // of the cluster
	Roles    rights.Set `json:"roles"`
	Expires  *time.Time `json:"expires,omitempty"` // of what was shown
}

func (a *API) whoAmI(r *http.Request) (reply, error) {
	q := askingOf(r.Context())
	if q.flaw != nil {
		return reply{}, q.flaw
	}
	return reply{from: func(reader ledger.Reader) (reply, error) {
		set, err := access.Rights(reader, q.who, q.now())
		if err != nil {
			return reply{}, err
		}
		answer := caller{Identity: q.who.String(), Mode: string(q.mode), Roles: append(rights.Set{}, set...)}
		if ends := access.Expires(reader, q.who); !ends.IsZero() {
			answer.Expires = &ends
		}
		return reply{body: answer}, nil
	}}, nil
}

func proxyVersion(*http.Request) (reply, error) {
	return reply{body: map[string]string{"version": buildinfo.Get().Version}}, nil
}

// proxyHealth is told by the leader itself, which is well if it answers.
func proxyHealth(*http.Request) (reply, error) {
	version := buildinfo.Get().Version
	return reply{body: map[string]any{
		"netmaster": map[string]string{"status": "healthy", "reason": "", "version": version},
		"status":    "healthy", "version": version,
	}}, nil
}

// readInto decodes a body.
func readInto(r *http.Request, into any) error {
	body, err := ReadBody(r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return malformed(err)
	}
	return nil
}

// forwarded tells whether another netmaster passes a request on: what it shows itself
// is not who asks.
func forwarded(r *http.Request, who identity.Identity) bool {
	return who.Kind == identity.Master && r.Header.Get(mastercfg.ForwardedHeader) != ""
}
