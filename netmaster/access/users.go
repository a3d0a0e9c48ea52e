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

// UserAt returns the local user with a name.
func UserAt(r ledger.Reader, name string) (mastercfg.LocalUser, error) {
	user, err := ledger.Read[mastercfg.LocalUser](r, mastercfg.UserKey(name))
	if fault.Is(err, fault.NotFound) {
		return user, fault.New(fault.NotFound, "user %.64q: there is no local user of this name", name)
	}
	return user, err
}

// HasUser reports whether there is a local user with a name, regardless of case, as directories compare names.
func HasUser(r ledger.Reader, name string) (local bool) {
	r.Range(mastercfg.UserPrefix, func(key string, _ []byte) bool {
		local = strings.EqualFold(strings.TrimPrefix(key, mastercfg.UserPrefix), name)
		return !local
	})
	return local
}

// CreateUser stores a new user, with the hash of the password.
func CreateUser(tx *ledger.Tx, user mastercfg.LocalUser, now time.Time) error {
	key := mastercfg.UserKey(user.Name)
	if _, there := tx.Get(key); there {
		return fault.New(fault.Conflict, "user %s exists", user.Name)
	}
	user.Life, user.Created = rand.Text(), now
	return ledger.Write(tx, key, user)
}

// UserChange is a change of a user; nil: unchanged.
type UserChange struct {
	FirstName, LastName *string
	Disabled            *bool   // a change ends sessions and certificates
	Password            *string // a hash; it ends them, too
}

// ChangeUser changes a user and returns the new state.
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
	if change.Password != nil || user.Disabled != wasDisabled { // also when enabled: earlier versions did not remove them
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

// DeleteUser deletes a user, with all sessions, certificates and roles.
func DeleteUser(tx *ledger.Tx, by identity.Identity, name string) error {
	if _, err := UserAt(tx, name); err != nil {
		return err
	}
	return KeepingAdmin(tx, by, func() error {
		tx.Delete(mastercfg.UserKey(name))
		tx.Delete(mastercfg.UserBindingsKey(name))
		if err := DropCertificates(tx, name); err != nil {
			return err
		}
		_, err := EndSessions(tx, name)
		return err
	})
}

// EndSessions ends the sessions of a user, local or of an external directory, and returns their number. The user
// may log in again.
func EndSessions(tx *ledger.Tx, name string) (ended int, err error) {
	err = eachSession(tx, name, func(key string, _ mastercfg.Session) {
		tx.Delete(key)
		ended++
	})
	return ended, err
}

// mostSessions limits the sessions of a user, with recently expired ones: the oldest is replaced.
const mostSessions = 100

// Login creates a session of a user whose password was verified with hash, and stores the renewed hash unless that
// is empty. It fails with ErrNobody if the user has changed since.
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

// LoginForeign creates a session of a user of an external directory, in some groups. The rights are evaluated at
// each request. It fails with ErrNobody if there is now a local user with the name.
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

// roomForSession makes room for one more session of a user.
func roomForSession(tx *ledger.Tx, name string, now time.Time) error {
	var all []given
	err := eachSession(tx, name, func(key string, s mastercfg.Session) {
		all = append(all, given{key, mastercfg.Current(s.Created, s.Expires, now), s.Created})
	})
	makeRoom(tx, all, mostSessions)
	return err
}

// eachSession calls visit for the sessions of a user.
func eachSession(r ledger.Reader, name string, visit func(key string, s mastercfg.Session)) error {
	return ledger.ReadEach(r, mastercfg.SessionKey(accounts.Owner(name)), func(key string, s mastercfg.Session) error {
		if s.User == name {
			visit(key, s)
		}
		return nil
	})
}

// Logout ends the session of an identity. API tokens and certificates have none.
func Logout(tx *ledger.Tx, who identity.Identity) {
	if who.Kind == identity.User && who.Session != "" {
		tx.Delete(mastercfg.SessionKey(who.Session))
	}
}
