package api

import (
	"net/http"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/asking"
	"github.com/contiv/netplugin/netmaster/api/rest"
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
func (a *API) accountRoutes() []rest.Route {
	const user, binding, token, directory = usersPath, AuthPath + "/authorizations", tokensPath, directoryPath
	return []rest.Route{
		rest.At(loginPath, rights.Public, rest.Methods{http.MethodPost: a.login}),
		rest.At(openIDPath, rights.Public, rest.Methods{http.MethodGet: a.openIDClient}),
		rest.At(openIDLoginPath, rights.Public, rest.Methods{http.MethodPost: a.loginOpenID}),
		rest.At(AuthPath+"/version", rights.Public, rest.Methods{http.MethodGet: proxyVersion}),
		rest.At(AuthPath+"/health", rights.Public, rest.Methods{http.MethodGet: proxyHealth}),
		rest.At(AuthPath+"/logout", rights.Known, rest.Methods{http.MethodPost: a.logout}),
		rest.At(WhoAmIPath, rights.Known, rest.Methods{http.MethodGet: a.whoAmI}),

		rest.At(user, rights.Access, rest.Methods{http.MethodGet: a.listUsers, http.MethodPost: a.createUser}),
		rest.At(user+"/{user}", rights.Known, rest.Methods{http.MethodGet: a.getUser, http.MethodPatch: a.changeUser, http.MethodDelete: a.deleteUser}),
		rest.At(user+"/{user}/certificates", rights.Known, rest.Methods{http.MethodGet: a.listUserCerts, http.MethodPost: a.createUserCert, http.MethodDelete: a.dropUserCerts}),
		rest.At(binding, rights.Known, rest.Methods{http.MethodGet: a.listBindings, http.MethodPost: a.bind}),
		rest.At(binding+"/{id}", rights.Known, rest.Methods{http.MethodGet: a.getBinding, http.MethodDelete: a.unbind}),
		rest.At(token, rights.Access, rest.Methods{http.MethodGet: a.listTokens, http.MethodPost: a.createToken}),
		rest.At(directory, rights.Access, rest.Methods{http.MethodGet: a.getDirectory, http.MethodPut: a.putDirectory, http.MethodPatch: a.putDirectory, http.MethodDelete: a.deleteDirectory}),
		rest.At(providerPath, rights.Access, rest.Methods{http.MethodGet: a.getProvider, http.MethodPut: a.putProvider, http.MethodPatch: a.putProvider, http.MethodDelete: a.deleteProvider}),
		rest.At(token+"/{name}", rights.Access, rest.Methods{http.MethodDelete: a.deleteToken}),
	}
}

// errWrongLogin is said of users who do not exist, too.
var errWrongLogin = rest.Denial{Cause: fault.New(fault.Denied, "Invalid username/password"), Status: http.StatusUnauthorized}

// login begins a session. Which of the two was wrong is not told, and takes no other time.
func (a *API) login(r *http.Request) (rest.Reply, error) {
	var sent struct{ Username, Password string }
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	if sent.Username == "" || sent.Password == "" {
		return rest.Reply{}, fault.New(fault.Invalid, "username and password: both are wanted")
	}
	account, from := sent.Username, rest.SourceOf(r)
	if accounts.CheckName(account) != nil {
		account = "" // nobody has this name
	}
	asking.Of(r.Context()).IsFor(account)
	hash, local := a.hashOf(account)
	guess := account
	if !local { // to a directory all spellings are one account, and they share their guesses
		guess = strings.ToLower(account)
	}
	if wait := a.guesses.Admit(guess, from, a.config.Now()); wait > 0 {
		return rest.Reply{}, tooManyGuesses(wait)
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
			return rest.Reply{}, err
		}
	}
	if !verdict.Right {
		return rest.Reply{}, errWrongLogin
	}
	a.guesses.Right(guess, from, a.config.Now()) // whatever becomes of the session
	renewed := ""
	if verdict.Renew {
		var err error
		if renewed, err = a.hasher.Hash(r.Context(), sent.Password); err != nil {
			return rest.Reply{}, err
		}
	}
	var token accounts.Token
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		token, err = access.Login(tx, account, hash, renewed, a.config.Now())
		return err
	})
	if _, is := rest.Denied(err); is {
		return rest.Reply{}, errWrongLogin
	}
	return rest.Reply{Body: map[string]string{"token": token.Text}, Revision: rev}, err
}

// loginForeign begins the session of a user whom the directory knows, or not, by his name in lower case.
func (a *API) loginForeign(r *http.Request, account string, groups []string, err error) (rest.Reply, error) {
	switch {
	case fault.Is(err, fault.Denied):
		return rest.Reply{}, errWrongLogin
	case err != nil:
		a.guesses.Unanswered(account, rest.SourceOf(r))
		if a.directory.trouble.isNews(err, a.config.Now()) {
			a.config.Log.WithError(err).Warn("login of a user of the directory")
		}
		return rest.Reply{}, fault.New(fault.Unavailable, "the directory of users does not answer: local users can log in")
	}
	a.guesses.Right(account, rest.SourceOf(r), a.config.Now()) // whatever becomes of the session
	var token accounts.Token
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		token, err = access.LoginForeign(tx, account, groups, a.config.Now())
		return err
	})
	if _, is := rest.Denied(err); is {
		return rest.Reply{}, errWrongLogin
	}
	return rest.Reply{Body: map[string]string{"token": token.Text}, Revision: rev}, err
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

// logout ends the session whose token was shown.
func (a *API) logout(r *http.Request) (rest.Reply, error) {
	rev, err := a.ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		access.Logout(tx, asking.Of(r.Context()).Who)
		return nil
	})
	return rest.Reply{Code: http.StatusNoContent, Revision: rev}, err
}

// caller is the answer of whoami.
type caller struct {
	Identity string     `json:"identity"` // as in "user/ann"
	Mode     string     `json:"mode"`     // of the cluster
	Roles    rights.Set `json:"roles"`
	Expires  *time.Time `json:"expires,omitempty"` // of what was shown
}

func (a *API) whoAmI(r *http.Request) (rest.Reply, error) {
	q := asking.Of(r.Context())
	if flaw := q.Flaw(); flaw != nil {
		return rest.Reply{}, flaw
	}
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		set, err := access.Rights(reader, q.Who, a.config.Now())
		if err != nil {
			return rest.Reply{}, err
		}
		answer := caller{Identity: q.Who.String(), Mode: string(q.Mode()), Roles: append(rights.Set{}, set...)}
		if ends := access.Expires(reader, q.Who); !ends.IsZero() {
			answer.Expires = &ends
		}
		return rest.Reply{Body: answer}, nil
	}}, nil
}

func proxyVersion(*http.Request) (rest.Reply, error) {
	return rest.Reply{Body: map[string]string{"version": buildinfo.Get().Version}}, nil
}

// proxyHealth is told by the leader itself, which is well if it answers.
func proxyHealth(*http.Request) (rest.Reply, error) {
	version := buildinfo.Get().Version
	return rest.Reply{Body: map[string]any{
		"netmaster": map[string]string{"status": "healthy", "reason": "", "version": version},
		"status":    "healthy", "version": version,
	}}, nil
}
