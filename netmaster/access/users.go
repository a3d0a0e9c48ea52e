package access

import (
	"crypto/rand"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// UserAt finds a local user.
func UserAt(r ledger.Reader, name string) (mastercfg.LocalUser, error) {
	user, err := ledger.Read[mastercfg.LocalUser](r, mastercfg.UserKey(name))
	if fault.Is(err, fault.NotFound) {
		return user, fault.New(fault.NotFound, "user %.64q: there is no local user of this name", name)
	}
	return user, err
}

// HasUser tells whether there is a local user of a name, in whatever case: directories compare names
// without it.
func HasUser(r ledger.Reader, name string) (local bool) {
	r.Range(mastercfg.UserPrefix, func(key string, _ []byte) bool {
		local = strings.EqualFold(strings.TrimPrefix(key, mastercfg.UserPrefix), name)
		return !local
	})
	return local
}

// CreateUser stores a new user, whose password is a hash.
func CreateUser(tx *ledger.Tx, user mastercfg.LocalUser, now time.Time) error {
	key := mastercfg.UserKey(user.Name)
	if _, there := tx.Get(key); there {
		return fault.New(fault.Conflict, "user %s exists", user.Name)
	}
	user.Life, user.Created = rand.Text(), now
	return ledger.Write(tx, key, user)
}

// UserChange is what is changed of a user; nil: nothing of it.
type UserChange struct {
	FirstName, LastName *string
	Disabled            *bool   // where it changes, sessions and certificates end
	Password            *string // a hash; they end, too
}

// ChangeUser changes a user and returns him as he is then.
func ChangeUser(tx *ledger.Tx, by identity.Identity, name string, change UserChange) (mastercfg.LocalUser, error) {
	user, err := UserAt(tx, name)
	if err != nil {
		return user, err
	}
	set(&user.FirstName, change.FirstName)
	set(&user.LastName, change.LastName)
	set(&user.Password, change.Password)
	wasDisabled := user.Disabled
	set(&user.Disabled, change.Disabled)
	if change.Password != nil || user.Disabled != wasDisabled { // also who is enabled: earlier versions have left him what he had
		user.Life = rand.Text()
	}
	write := func() error { return ledger.Write(tx, mastercfg.UserKey(name), user) }
	if change.Disabled == nil || !*change.Disabled {
		return user, write()
	}
	return user, KeepingAdmin(tx, by, write)
}

func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

// DeleteUser takes a user away, with his sessions, certificates and roles.
func DeleteUser(tx *ledger.Tx, by identity.Identity, name string) error {
	if _, err := UserAt(tx, name); err != nil {
		return err
	}
	return KeepingAdmin(tx, by, func() error {
		tx.Delete(mastercfg.UserKey(name))
		tx.Delete(mastercfg.BindingsKey(name, true))
		if err := DropCertificates(tx, name); err != nil {
			return err
		}
		_, err := EndSessions(tx, name)
		return err
	})
}

// EndSessions ends those of a user, whether he is local or of another directory, and tells how many there were. Who may log in there
// may begin another one.
func EndSessions(tx *ledger.Tx, name string) (ended int, err error) {
	err = eachSession(tx, name, func(key string, _ mastercfg.Session) {
		tx.Delete(key)
		ended++
	})
	return ended, err
}

// mostSessions is how many a user has, with those that have ended lately: the oldest makes room.
const mostSessions = 100

// Login begins a session of a user whose password was right for a hash, and stores the
// new form of the hash unless that is empty. It fails with ErrNobody if the user has
// changed since.
func Login(tx *ledger.Tx, name, hash, renewed string, now time.Time) (accounts.Token, error) {
	user, err := UserAt(tx, name)
	if fault.Is(err, fault.NotFound) || err == nil && (user.Disabled || user.Password != hash) {
		return accounts.Token{}, errNotAuthenticated("user %s is not known, or disabled, or has another password now", name)
	}
	if err != nil {
		return accounts.Token{}, err
	}
	if renewed != "" {
		user.Password = renewed
		if err := ledger.Write(tx, mastercfg.UserKey(name), user); err != nil {
			return accounts.Token{}, err
		}
	}
	if err := roomForSession(tx, name, now); err != nil {
		return accounts.Token{}, err
	}
	token := accounts.NewToken(name)
	return token, ledger.Write(tx, mastercfg.SessionKey(token.ID), mastercfg.Session{
		ID: token.ID, User: name, Life: user.Life, Digest: token.Digest, Created: now, Expires: now.Add(accounts.SessionLife)})
}

// LoginForeign begins a session of a user whom another directory knows, in some groups.
// What they may is asked for at each request. It fails with ErrNobody if there is a local
// user of the name by now.
func LoginForeign(tx *ledger.Tx, name string, groups []string, now time.Time) (accounts.Token, error) {
	if HasUser(tx, name) {
		return accounts.Token{}, errNotAuthenticated("user %s is a local user", name)
	}
	if err := roomForSession(tx, name, now); err != nil {
		return accounts.Token{}, err
	}
	token := accounts.NewToken(name)
	return token, ledger.Write(tx, mastercfg.SessionKey(token.ID), mastercfg.Session{
		ID: token.ID, User: name, Groups: groups, Foreign: true, Digest: token.Digest, Created: now, Expires: now.Add(accounts.SessionLife)})
}

// roomForSession has a user have one session less than the most.
func roomForSession(tx *ledger.Tx, name string, now time.Time) error {
	var all []given
	err := eachSession(tx, name, func(key string, s mastercfg.Session) {
		all = append(all, given{key, mastercfg.Current(s.Created, s.Expires, now), s.Created})
	})
	makeRoom(tx, all, mostSessions)
	return err
}

// eachSession visits the sessions of a user.
func eachSession(r ledger.Reader, name string, visit func(key string, s mastercfg.Session)) error {
	return ledger.ReadEach(r, mastercfg.SessionKey(accounts.Owner(name)), func(key string, s mastercfg.Session) error {
		if s.User == name {
			visit(key, s)
		}
		return nil
	})
}

// Logout ends the session that an identity shows. API tokens and certificates have none.
func Logout(tx *ledger.Tx, who identity.Identity) {
	if who.Kind == identity.User && who.Session != "" {
		tx.Delete(mastercfg.SessionKey(who.Session))
	}
}
