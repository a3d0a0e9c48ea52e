package logins

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/buildinfo"
	"github.com/contiv/netplugin/utils/fault"
)

// errWrongLogin is also the error for unknown users.
var errWrongLogin = rest.Denial{Cause: fault.New(fault.Denied, "Invalid username/password"), Status: http.StatusUnauthorized}

// login starts a session. A refusal does not reveal, by text or by time, whether the name or the password was wrong.
func (l *Logins) login(r *http.Request) (rest.Reply, error) {
	var sent struct{ Username, Password string }
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	if sent.Username == "" || sent.Password == "" {
		return rest.Reply{}, fault.New(fault.Invalid, "username and password: both are wanted")
	}
	account, from := sent.Username, rest.SourceOf(r)
	if accounts.CheckName(account) != nil {
		account = "" // no user has this name
	}
	hash, local := l.hashOf(account)
	guess := account
	if !local { // a directory ignores case, so all spellings of an account share its guesses
		guess = strings.ToLower(account)
	}
	if wait := l.guesses.Admit(guess, from, l.config.Now()); wait > 0 {
		return rest.Reply{}, tooManyGuesses(wait)
	}
	auth.CallerFrom(r.Context()).SetSubject(cmp.Or(account, "a name that nobody can have")) // the name may be a mistyped password
	if !local && account != "" && !l.isLocal(account) {
		if groups, found, err := l.groupsOf(r.Context(), account, sent.Password); found {
			return l.loginForeign(r, guess, groups, err)
		}
	}
	rank, verdict := l.guesses.Rank(guess, from, l.config.Now()), accounts.Verdict{}
	if len(sent.Password) <= accounts.MaxPassword { // no password is longer
		var err error
		if verdict, err = l.hasher.Verify(r.Context(), hash, sent.Password, rank); err != nil {
			l.guesses.Unjudged(guess, from)
			return rest.Reply{}, err
		}
	}
	if !verdict.Right {
		return rest.Reply{}, errWrongLogin
	}
	l.guesses.Right(guess, from, l.config.Now()) // whether the session can be stored or not
	renewed := ""
	if verdict.Renew {
		var err error
		if renewed, err = l.hasher.Hash(r.Context(), sent.Password, rank); err != nil {
			return rest.Reply{}, err
		}
	}
	var token accounts.Token
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		token, err = access.Login(tx, account, hash, renewed, l.config.Now())
		return err
	})
	if _, is := rest.Denied(err); is {
		return rest.Reply{}, errWrongLogin
	}
	return rest.Reply{Body: map[string]string{"token": token.Text}, Revision: rev}, err
}

// loginForeign starts the session of a user of the directory, by the name in lower case; err is the directory's error.
func (l *Logins) loginForeign(r *http.Request, account string, groups []string, err error) (rest.Reply, error) {
	switch {
	case fault.Is(err, fault.Denied):
		return rest.Reply{}, errWrongLogin
	case err != nil:
		l.guesses.Unanswered(account, rest.SourceOf(r), l.config.Now())
		if l.directory.trouble.IsNews(err, l.config.Now()) {
			l.config.Log.WithError(err).Warn("login of a user of the directory")
		}
		return rest.Reply{}, fault.New(fault.Unavailable, "the directory of users does not answer: local users can log in")
	}
	l.guesses.Right(account, rest.SourceOf(r), l.config.Now()) // whether the session can be stored or not
	var token accounts.Token
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		token, err = access.LoginForeign(tx, account, groups, l.config.Now())
		return err
	})
	if _, is := rest.Denied(err); is {
		return rest.Reply{}, errWrongLogin
	}
	return rest.Reply{Body: map[string]string{"token": token.Text}, Revision: rev}, err
}

// isLocal reports whether there is a local user, even a disabled one, of a name as a directory compares names.
func (l *Logins) isLocal(name string) (local bool) {
	_ = l.config.Ledger.View(func(r ledger.Reader) error {
		local = access.HasUser(r, name)
		return nil
	})
	return local
}

// hashOf returns the stored hash of a user's password; empty: that user cannot log in. local reports whether the
// user exists, even if disabled.
func (l *Logins) hashOf(name string) (hash string, local bool) {
	_ = l.config.Ledger.View(func(r ledger.Reader) error { // errors are reported by the plan of the login
		user, err := access.UserAt(r, name)
		if err == nil && !user.Disabled {
			hash = user.Password
		}
		local = !fault.Is(err, fault.NotFound) // an unreadable user is not looked up in the directory
		return nil
	})
	return hash, local
}

// logout ends the session whose token was presented.
func (l *Logins) logout(r *http.Request) (rest.Reply, error) {
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		access.Logout(tx, auth.CallerFrom(r.Context()).Who)
		return nil
	})
	return rest.Reply{Code: http.StatusNoContent, Revision: rev}, err
}

// ownIdentity is the answer of whoami.
type ownIdentity struct {
	Identity string     `json:"identity"` // as in "user/ann"
	Mode     string     `json:"mode"`     // of the cluster
	Roles    rights.Set `json:"roles"`
	Expires  *time.Time `json:"expires,omitempty"` // of the presented credentials
}

func (l *Logins) whoAmI(r *http.Request) (rest.Reply, error) {
	caller := auth.CallerFrom(r.Context())
	if flaw := caller.Flaw(); flaw != nil {
		return rest.Reply{}, flaw
	}
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		set, err := access.Rights(reader, caller.Who, l.config.Now())
		if err != nil {
			return rest.Reply{}, err
		}
		answer := ownIdentity{Identity: caller.Who.String(), Mode: string(caller.Mode()), Roles: append(rights.Set{}, set...)}
		if ends := access.Expires(reader, caller.Who); !ends.IsZero() {
			answer.Expires = &ends
		}
		return rest.Reply{Body: answer}, nil
	}}, nil
}

func proxyVersion(*http.Request) (rest.Reply, error) {
	return rest.Reply{Body: map[string]string{"version": buildinfo.Get().Version}}, nil
}

// proxyHealth is answered by the leader itself, which is healthy if it answers.
func proxyHealth(*http.Request) (rest.Reply, error) {
	version := buildinfo.Get().Version
	return rest.Reply{Body: map[string]any{
		"netmaster": map[string]string{"status": "healthy", "reason": "", "version": version},
		"status":    "healthy", "version": version,
	}}, nil
}
