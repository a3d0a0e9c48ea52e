package logins

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel/limits"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// userForm is a local user in the JSON of the original's proxy.
// Absent fields are not changed; answers never have the password.
type userForm struct {
	Username  string  `json:"username"`
	Password  *string `json:"password,omitempty"`
	FirstName *string `json:"first_name"`
	LastName  *string `json:"last_name"`
	Disable   *bool   `json:"disable"`
}

func formOf(u mastercfg.LocalUser) userForm {
	return userForm{Username: u.Name, FirstName: &u.FirstName, LastName: &u.LastName, Disable: &u.Disabled}
}

// auditText describes, for the audit log, a change of a user: the fields, and whether the user may log in.
func (f userForm) auditText(name string) string {
	var all []string
	for _, field := range []struct {
		name  string
		named bool
	}{{"password", f.Password != nil}, {"first_name", f.FirstName != nil}, {"last_name", f.LastName != nil}} {
		if field.named {
			all = append(all, field.name)
		}
	}
	if f.Disable != nil {
		all = append(all, fmt.Sprintf("disable=%t", *f.Disable))
	}
	return fmt.Sprintf("%s: %s", identity.Identity{Kind: identity.User, Name: name}, cmp.Or(strings.Join(all, ", "), "nothing"))
}

func (l *Logins) listUsers(*http.Request) (rest.Reply, error) {
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		users, err := ledger.ReadAll[mastercfg.LocalUser](r, mastercfg.UserPrefix)
		forms := []userForm{}
		for _, u := range users {
			forms = append(forms, formOf(u))
		}
		return rest.Reply{Body: forms}, err
	}}, nil
}

func (l *Logins) createUser(r *http.Request) (rest.Reply, error) {
	var sent userForm
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	if err := accounts.CheckName(sent.Username); err != nil {
		return rest.Reply{}, err
	}
	auth.CallerFrom(r.Context()).SetSubject(sent.auditText(sent.Username))
	if sent.Password == nil {
		return rest.Reply{}, fault.New(fault.Invalid, "user %s: a password is wanted", sent.Username).WithField("password")
	}
	change, err := l.userChange(r, sent)
	if err != nil {
		return rest.Reply{}, err
	}
	var made mastercfg.LocalUser
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		if err := access.CreateUser(tx, mastercfg.LocalUser{Name: sent.Username, Password: *change.Password}, l.config.Now()); err != nil {
			return err
		}
		others := change // a plan may run again
		others.Password = nil
		made, err = access.ChangeUser(tx, identity.Identity{}, sent.Username, others)
		return err
	})
	return rest.Reply{Code: http.StatusCreated, Body: formOf(made), Revision: rev}, err
}

// userChange returns the change that a form asks for, with the hash of the password.
func (l *Logins) userChange(r *http.Request, sent userForm) (access.UserChange, error) {
	change := access.UserChange{FirstName: sent.FirstName, LastName: sent.LastName, Disabled: sent.Disable}
	for _, f := range []struct {
		field string
		text  *string
	}{{"first_name", sent.FirstName}, {"last_name", sent.LastName}} {
		if f.text == nil {
			continue
		}
		if len(*f.text) > maxHumanName {
			return change, fault.New(fault.TooLarge, "%s: %d bytes, the limit is %d", f.field, len(*f.text), maxHumanName).WithField(f.field)
		}
		if err := limits.Plain(f.field, *f.text); err != nil { // a client that lists all users could not, as YAML
			return change, err
		}
	}
	if sent.Password == nil {
		return change, nil
	}
	if err := accounts.CheckPassword(*sent.Password); err != nil {
		return change, fault.New(fault.Invalid, "%w", err).WithField("password")
	}
	hash, err := l.hasher.Hash(r.Context(), *sent.Password, l.rankOfChange(r))
	change.Password = &hash
	return change, err
}

const maxHumanName = 256

// rankOfChange returns the place in the hashing queue of a request
// that sets a password. Root, which is not limited, comes first.
func (l *Logins) rankOfChange(r *http.Request) int {
	caller := auth.CallerFrom(r.Context())
	if caller.Who.Kind == identity.Root {
		return 0
	}
	account := caller.Who.Name
	if caller.Who.Kind != identity.User {
		account = caller.Who.String() // a token may have a user's name
	}
	return l.guesses.RankOfChange(account, rest.SourceOf(r), l.config.Now())
}

// userOf returns the user that a request names. Users may read and change their own account, but not whether it
// may log in.
func (l *Logins) userOf(r *http.Request, verb rights.Verb, own bool) (name string, err error) {
	caller, name := auth.CallerFrom(r.Context()), mux.Vars(r)["user"]
	himself := false
	_ = l.config.Ledger.View(func(r ledger.Reader) error { // on errors it counts as another user
		himself = caller.Who.Name == name && access.IsLocal(r, caller.Who)
		return nil
	})
	if own && himself {
		return name, nil
	}
	caller.Require(auth.Need{Verb: verb, Area: rights.Access})
	return name, l.config.Ledger.View(caller.Still)
}

func (l *Logins) getUser(r *http.Request) (rest.Reply, error) {
	name, err := l.userOf(r, rights.Read, true)
	if err != nil {
		return rest.Reply{}, err
	}
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		user, err := access.UserAt(reader, name)
		return rest.Reply{Body: formOf(user)}, err
	}}, nil
}

func (l *Logins) changeUser(r *http.Request) (rest.Reply, error) {
	var sent userForm
	malformed := rest.ReadInto(r, &sent)
	// A certificate alone must not set one's own password: a stolen key would give access to the account for ever.
	name, err := l.userOf(r, rights.Change, sent.Disable == nil && (sent.Password == nil || auth.CallerFrom(r.Context()).Who.Session != ""))
	if err == nil {
		err = malformed // callers that may not change the user do not learn of the error
	}
	if malformed == nil {
		auth.CallerFrom(r.Context()).SetSubject(sent.auditText(name))
	}
	if err != nil {
		return rest.Reply{}, err
	}
	if sent.Username != "" && sent.Username != name {
		return rest.Reply{}, fault.New(fault.Immutable, "user %s: the name cannot be changed to %.64q", name, sent.Username).WithField("username")
	}
	change, err := l.userChange(r, sent)
	if err != nil {
		return rest.Reply{}, err
	}
	var user mastercfg.LocalUser
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		user, err = access.ChangeUser(tx, auth.CallerFrom(r.Context()).Who, name, change)
		return err
	})
	return rest.Reply{Body: formOf(user), Revision: rev}, err
}

// endSessions ends all sessions of a user, local or not: those of
// a user that was removed from a directory would last for hours.
func (l *Logins) endSessions(r *http.Request) (rest.Reply, error) {
	name, ended := mux.Vars(r)["user"], 0
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) (err error) {
		if ended, err = access.EndSessions(tx, name); err != nil || strings.ToLower(name) == name {
			return err
		}
		more, err := access.EndSessions(tx, strings.ToLower(name)) // sessions of a directory's users have lower-case names
		ended += more
		return err
	})
	return rest.Reply{Body: map[string]int{"ended": ended}, Revision: rev}, err
}

func (l *Logins) deleteUser(r *http.Request) (rest.Reply, error) {
	name, err := l.userOf(r, rights.Change, false)
	if err != nil {
		return rest.Reply{}, err
	}
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		return access.DeleteUser(tx, auth.CallerFrom(r.Context()).Who, name)
	})
	return rest.Reply{Code: http.StatusNoContent, Revision: rev}, err
}
