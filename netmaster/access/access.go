// Package access stores local users with their sessions, API tokens, and the roles of users and groups as records
// of the store.
//
// Plans change these records, in a transaction of the ledger. Rights are read from the state of the plan that
// needs them, so that a write cannot race with the removal of the right to make it. Passwords and tokens are
// verified by package accounts, before the plan.
package access

import (
	"time"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// ErrNobody is wrapped by all errors about requests without an identity, or with one that is not proven.
var ErrNobody = fault.New(fault.Denied, "no identity")

// errNotAuthenticated returns such an error.
func errNotAuthenticated(format string, args ...any) error {
	return fault.New(fault.Denied, format+"%w", append(args, hidden{ErrNobody})...)
}

// hidden is a cause that the text of an error does not show.
type hidden struct{ cause error }

func (hidden) Error() string   { return "" }
func (h hidden) Unwrap() error { return h.cause }

// Recognize returns the identity of a token: the user of a session, or an API token. Whether it is valid, and its
// rights, are evaluated again by Rights where it matters.
func Recognize(r ledger.Reader, text string) (identity.Identity, error) {
	id, secret, err := accounts.ParseToken(text)
	if err != nil {
		return identity.Identity{}, errNotAuthenticated("%v", err)
	}
	if s, err := ledger.ReadShared[mastercfg.Session](r, mastercfg.SessionKey(id)); err == nil {
		return verify(identity.User, s.User, id, secret, s.Digest)
	} else if !fault.Is(err, fault.NotFound) {
		return identity.Identity{}, err
	}
	t, err := ledger.ReadShared[mastercfg.APIToken](r, mastercfg.APITokenKey(id))
	if fault.Is(err, fault.NotFound) {
		return identity.Identity{}, errNotAuthenticated("token %s is not known, or not any more", id)
	}
	if err != nil {
		return identity.Identity{}, err
	}
	return verify(identity.Token, t.Name, id, secret, t.Digest)
}

// verify returns an identity if the secret matches the stored digest.
func verify(kind identity.Kind, name, id, secret, digest string) (identity.Identity, error) {
	if !accounts.Proves(secret, digest) {
		return identity.Identity{}, errNotAuthenticated("token %s: it is not the one that was given out", id)
	}
	return identity.Identity{Kind: kind, Name: name, Session: id}, nil
}

// Rights returns the rights of an identity in this state, at this time. It fails with ErrNobody if the identity is
// no longer valid: its session has ended, its token is deleted, its user disabled, the name of its node has
// another key or none, or its netmaster was removed.
func Rights(r ledger.Reader, who identity.Identity, now time.Time) (rights.Set, error) {
	switch who.Kind {
	case identity.Nobody:
		return nil, errNotAuthenticated("nobody says who is asking: log in, or show a token or a certificate")
	case identity.User:
		return rightsOfUser(r, who, now)
	case identity.Token:
		return rightsOfToken(r, who, now)
	case identity.Node:
		return rights.With(who), holdsName(r, who)
	case identity.Master:
		return rights.With(who), StillNetmaster(r, who.Name)
	}
	return rights.With(who), nil
}

// holdsName returns an error unless the node has the key of its name.
func holdsName(r ledger.Reader, who identity.Identity) error {
	joined, err := ledger.ReadShared[mastercfg.Joined](r, mastercfg.NodePrefix+who.Name)
	if fault.Is(err, fault.NotFound) || err == nil && (joined.Key == "" || joined.Key != who.KeyHash) {
		return errNotAuthenticated("node %s was removed, or its name belongs to another key now", who.Name)
	}
	return err
}

// StillNetmaster fails with ErrNobody if the netmaster with a name was removed.
func StillNetmaster(r ledger.Reader, name string) error {
	if _, removed := r.Get(mastercfg.RemovedMasterPrefix + name); removed {
		return errNotAuthenticated("netmaster %s was removed: it is nobody until it joins again", name)
	}
	return nil
}

func rightsOfUser(r ledger.Reader, who identity.Identity, now time.Time) (rights.Set, error) {
	if s, err := foreignSession(r, who); err != nil || s != nil {
		if err != nil {
			return nil, err
		}
		return rightsOfGroups(r, *s, now)
	}
	user, err := ledger.ReadShared[mastercfg.LocalUser](r, mastercfg.UserKey(who.Name))
	if fault.Is(err, fault.NotFound) || err == nil && user.Disabled {
		return nil, errNotAuthenticated("user %s is not known, or disabled", who.Name)
	}
	if err != nil {
		return nil, err
	}
	if who.Session != "" {
		session, err := ledger.ReadShared[mastercfg.Session](r, mastercfg.SessionKey(who.Session))
		if fault.Is(err, fault.NotFound) || err == nil && !isCurrent(session, user, now) {
			return nil, errNotAuthenticated("the session of user %s has ended: log in again", who.Name)
		}
		if err != nil {
			return nil, err
		}
	}
	if who.Issued {
		if err := holdsCertificate(r, *user, who, now); err != nil {
			return nil, err
		}
	}
	return grants(r, nil, mastercfg.UserBindingsKey(who.Name))
}

// isCurrent reports whether a session is one of this user, not of a former one with the name, and has not ended.
func isCurrent(session *mastercfg.Session, user *mastercfg.LocalUser, now time.Time) bool {
	return session.User == user.Name && session.Life == user.Life && mastercfg.Current(session.Created, session.Expires, now)
}

// grants adds the grants of the bindings in a record.
func grants(r ledger.Reader, set rights.Set, key string) (rights.Set, error) {
	if _, there := r.Get(key); !there {
		return set, nil
	}
	bound, err := ledger.ReadShared[mastercfg.Bindings](r, key)
	if err != nil {
		return nil, err
	}
	for _, b := range bound.Bindings {
		set = append(set, rights.Grant{Role: rights.Role(b.Role), Tenant: b.Tenant})
	}
	return set, nil
}

// foreignSession returns the session of a user of an external directory; nil if it is not one.
func foreignSession(r ledger.Reader, who identity.Identity) (*mastercfg.Session, error) {
	if who.Kind != identity.User || who.Session == "" {
		return nil, nil
	}
	s, err := ledger.ReadShared[mastercfg.Session](r, mastercfg.SessionKey(who.Session))
	if fault.Is(err, fault.NotFound) || err == nil && !s.Foreign {
		return nil, nil
	}
	return s, err
}

// IsLocal reports whether an identity is a local user, not a user of an external directory with the same name.
func IsLocal(r ledger.Reader, who identity.Identity) bool {
	s, err := foreignSession(r, who)
	return who.Kind == identity.User && err == nil && s == nil
}

// rightsOfGroups returns the rights of the groups that a user of an external directory had at the login.
func rightsOfGroups(r ledger.Reader, s mastercfg.Session, now time.Time) (rights.Set, error) {
	if !mastercfg.Current(s.Created, s.Expires, now) {
		return nil, errNotAuthenticated("the session of user %s has ended: log in again", s.User)
	}
	set := rights.Set{}
	for _, group := range s.Groups {
		var err error
		if set, err = grants(r, set, mastercfg.GroupBindingsKey(group)); err != nil {
			return nil, err
		}
	}
	return set, nil
}

func rightsOfToken(r ledger.Reader, who identity.Identity, now time.Time) (rights.Set, error) {
	token, err := ledger.ReadShared[mastercfg.APIToken](r, mastercfg.APITokenKey(who.Session))
	if fault.Is(err, fault.NotFound) || err == nil && !mastercfg.Current(token.Created, token.Expires, now) {
		return nil, errNotAuthenticated("token %s is not known, or has expired, or is of a time that is still to come", who.Name)
	}
	if err != nil {
		return nil, err
	}
	var set rights.Set
	for _, tenant := range token.Tenants {
		set = append(set, rights.Grant{Role: rights.Role(token.Role), Tenant: tenant})
	}
	return set, nil
}

// Since returns the revision at which an identity got its present rights, or an earlier one if it cannot have had
// others in between; 0: it sees everything. A change of the security mode, which enables rights, counts; so does
// every other change of the record of security, which changes rarely.
func Since(r ledger.Reader, who identity.Identity) int64 {
	mode := r.Revision(mastercfg.SecurityKey)
	switch who.Kind {
	case identity.User:
	case identity.Token: // a deleted tenant is removed from it
		return max(mode, r.Revision(mastercfg.APITokenKey(who.Session)))
	default:
		return 0
	}
	if s, err := foreignSession(r, who); err == nil && s != nil {
		since := max(mode, r.Revision(mastercfg.GroupsKey), r.Revision(mastercfg.SessionKey(who.Session))) // a session has the groups of its login
		for _, group := range s.Groups {
			since = max(since, r.Revision(mastercfg.GroupBindingsKey(group)))
		}
		return since
	}
	return max(mode, r.Revision(mastercfg.UserBindingsKey(who.Name)))
}

// Expires returns when the token or user certificate of an identity expires; zero: never.
func Expires(r ledger.Reader, who identity.Identity) time.Time {
	if who.Issued {
		c, _ := ledger.Read[mastercfg.UserCertificate](r, mastercfg.UserCertificateKey(who.Name, who.KeyHash)) // else the zero time
		return c.Expires
	}
	if s, err := ledger.Read[mastercfg.Session](r, mastercfg.SessionKey(who.Session)); err == nil {
		return s.Expires
	}
	t, _ := ledger.Read[mastercfg.APIToken](r, mastercfg.APITokenKey(who.Session)) // else the zero time
	return t.Expires
}
