package mastercfg

import (
	"net/url"
	"strings"
	"time"
)

// Keys of logins and roles: records that only netmasters read. None contains anything that can be
// used as a password or a token.
const (
	UserPrefix     = AccessRoot + "users/"
	SessionPrefix  = AccessRoot + "sessions/"
	APITokenPrefix = AccessRoot + "tokens/"
	tokenUsePrefix = AccessRoot + "tokenUses/"
	BindingsPrefix = AccessRoot + "bindings/"

	userCertificatePrefix = AccessRoot + "certificates/"

	DirectoryKey = AccessRoot + "ldap" // how the LDAP directory of users who are not local is reached
	OpenIDKey    = AccessRoot + "oidc" // how the OpenID Connect provider is reached
	// GroupsKey is written when the record of a group is deleted (GroupGone), so that its revision shows since when.
	GroupsKey = AccessRoot + "groupsChanged"
)

// UserKey returns the key of a local user.
func UserKey(name string) string { return UserPrefix + name }

// ownerLength is how many characters of a token's id are those of its owner.
const ownerLength = 16

// below splits an id after its owner, so that the records of one owner can be listed.
func below(prefix, id string) string {
	n := min(ownerLength, len(id))
	return prefix + id[:n] + "/" + id[n:]
}

// SessionKey returns the key of a token's session; for the id of an owner alone, the prefix of the owner's sessions.
func SessionKey(id string) string { return below(SessionPrefix, id) }

// APITokenKey likewise returns the key of an API token.
func APITokenKey(id string) string { return below(APITokenPrefix, id) }

// TokenUseKey returns the key of the last use of an API token.
func TokenUseKey(id string) string { return below(tokenUsePrefix, id) }

// UserCertificateKey returns the key of a local user's certificate, by the hash of its public key; with an
// empty hash, the prefix of all of the user's certificates.
func UserCertificateKey(name, hash string) string { return userCertificatePrefix + name + "/" + hash }

// UserBindingsKey returns the key of the roles of a local user.
func UserBindingsKey(user string) string { return BindingsPrefix + "user/" + url.PathEscape(user) }

// GroupBindingsKey returns the key of the roles of a name in another directory, which may contain slashes.
func GroupBindingsKey(name string) string {
	return BindingsPrefix + "group/" + url.PathEscape(foldName(name))
}

// OpenIDPrefix is the prefix of users and groups of an OpenID Connect provider, so that none has the name of a
// local user or of a directory's.
const OpenIDPrefix = "oidc:"

// foldName maps the forms in which a directory may write the name (DN) of a group to one.
func foldName(principal string) string {
	if !strings.Contains(principal, "=") || strings.HasPrefix(principal, OpenIDPrefix) {
		return principal
	}
	parts := strings.Split(strings.ToLower(principal), ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return strings.Join(parts, ",")
}

// Directory is how the LDAP directory of users and their groups is reached.
type Directory struct {
	Server        string `json:"server"`
	Port          int    `json:"port"`
	BaseDN        string `json:"baseDN"`
	Account       string `json:"account"`  // DN
	Password      string `json:"password"` // of the account, encrypted; see keyring
	StartTLS      bool   `json:"startTLS,omitempty"`
	SkipVerify    bool   `json:"skipVerify,omitempty"`
	IssuedTo      string `json:"issuedTo,omitempty"`
	Authorities   string `json:"authorities,omitempty"` // PEM
	UserAttribute string `json:"userAttribute"`
}

// OpenID is how an OpenID Connect provider of users and their groups is reached.
type OpenID struct {
	Issuer      string   `json:"issuer"`
	ClientID    string   `json:"clientID"`
	Secret      string   `json:"secret,omitempty"`      // of the client, encrypted; see keyring
	Authorities string   `json:"authorities,omitempty"` // PEM
	NameClaim   string   `json:"nameClaim"`
	GroupsClaim string   `json:"groupsClaim"`
	Scopes      []string `json:"scopes,omitempty"`
}

// LocalUser is a user in netmaster's own database.
type LocalUser struct {
	Name      string    `json:"name"`
	FirstName string    `json:"firstName,omitempty"`
	LastName  string    `json:"lastName,omitempty"`
	Disabled  bool      `json:"disabled,omitempty"`
	Password  string    `json:"password"` // its hash; see accounts
	Life      string    `json:"life"`     // changes with each new password, and when the user is disabled or enabled: sessions belong to one life
	Created   time.Time `json:"created"`
}

// Session is a login.
type Session struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Life    string    `json:"life,omitempty"`    // of the local user at the login
	Groups  []string  `json:"groups,omitempty"`  // of a user of another directory, at the login
	Foreign bool      `json:"foreign,omitempty"` // the user belongs to another directory
	Digest  string    `json:"digest"`            // of the token's secret
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// UserCertificate is a certificate that was made for a local user.
type UserCertificate struct {
	User    string    `json:"user"`
	Key     string    `json:"key"`  // its hash, as pki.KeyHash makes it
	Life    string    `json:"life"` // of the user, when it was made
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// APIToken is the token that a program authenticates with.
type APIToken struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Tenants []string  `json:"tenants"` // "*": everywhere
	Digest  string    `json:"digest"`
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// TokenUse is when an API token was last used.
type TokenUse struct {
	ID   string    `json:"id"`
	Hour time.Time `json:"hour"` // its beginning
}

// Bindings are the roles of a principal. The record stays when the last role is removed: its revision shows since when.
type Bindings struct {
	Principal string    `json:"principal"`
	Local     bool      `json:"local"`
	Bindings  []Binding `json:"bindings"`
}

// GroupGone is written when the last role of a group is removed.
type GroupGone struct {
	Change string `json:"change"` // a random id
}

// Binding is one role.
type Binding struct {
	ID     string `json:"id"`
	Role   string `json:"role"`
	Tenant string `json:"tenant"` // "*": everywhere
}
