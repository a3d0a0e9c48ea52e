package mastercfg

import (
	"net/url"
	"strings"
	"time"
)

// Who may log in and who may what: records that netmasters alone read. Nothing in them
// can be shown to netmaster as a password or a token.
const (
	UserPrefix     = AccessRoot + "users/"
	SessionPrefix  = AccessRoot + "sessions/"
	APITokenPrefix = AccessRoot + "tokens/"
	tokenUsePrefix = AccessRoot + "tokenUses/"
	BindingsPrefix = AccessRoot + "bindings/"

	userCertificatePrefix = AccessRoot + "certificates/"

	DirectoryKey = AccessRoot + "ldap" // how users are found who are not local
	OpenIDKey    = AccessRoot + "oidc" // how those are asked about whom a provider of OpenID Connect knows
	// GroupsKey is written when the record of a group goes (GroupGone), so that its revision tells since when.
	GroupsKey = AccessRoot + "groupsChanged"
)

// UserKey is where a local user is.
func UserKey(name string) string { return UserPrefix + name }

// ownerLength is how many characters of a token's id are those of its owner.
const ownerLength = 16

// below splits an id after its owner, so that the records of one can be listed.
func below(prefix, id string) string {
	n := min(ownerLength, len(id))
	return prefix + id[:n] + "/" + id[n:]
}

// SessionKey is where the session of a token is; below the id of an owner alone are his.
func SessionKey(id string) string { return below(SessionPrefix, id) }

// APITokenKey is where an API token is; the same holds.
func APITokenKey(id string) string { return below(APITokenPrefix, id) }

// TokenUseKey is where the last use of an API token is.
func TokenUseKey(id string) string { return below(tokenUsePrefix, id) }

// UserCertificateKey is where it is written that the certificate with a key is a local user's; below an empty hash are all of his.
func UserCertificateKey(name, hash string) string { return userCertificatePrefix + name + "/" + hash }

// BindingsKey is where it is written what a principal may: a local user, or a name that
// another directory knows, which may hold slashes.
func BindingsKey(principal string, local bool) string {
	if local {
		return BindingsPrefix + "user/" + url.PathEscape(principal)
	}
	return BindingsPrefix + "group/" + url.PathEscape(foldName(principal))
}

// OpenIDPrefix is what the names begin with of users and groups that a provider of OpenID
// Connect tells of, so that none is one of a local user or of a directory.
const OpenIDPrefix = "oidc:"

// foldName makes the forms equal in which a directory tells the name (DN) of a group.
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

// Directory says how the LDAP directory is reached that knows users and their groups.
type Directory struct {
	Server        string `json:"server"`
	Port          int    `json:"port"`
	BaseDN        string `json:"baseDN"`
	Account       string `json:"account"`  // DN
	Password      string `json:"password"` // of the account, sealed; see keyring
	StartTLS      bool   `json:"startTLS,omitempty"`
	SkipVerify    bool   `json:"skipVerify,omitempty"`
	IssuedTo      string `json:"issuedTo,omitempty"`
	Authorities   string `json:"authorities,omitempty"` // PEM
	UserAttribute string `json:"userAttribute"`
}

// OpenID says how a provider of OpenID Connect is reached that knows users and their groups.
type OpenID struct {
	Issuer      string   `json:"issuer"`
	ClientID    string   `json:"clientID"`
	Secret      string   `json:"secret,omitempty"`      // of the client, sealed; see keyring
	Authorities string   `json:"authorities,omitempty"` // PEM
	NameClaim   string   `json:"nameClaim"`
	GroupsClaim string   `json:"groupsClaim"`
	Scopes      []string `json:"scopes,omitempty"`
}

// LocalUser is a user that netmaster itself knows.
type LocalUser struct {
	Name      string    `json:"name"`
	FirstName string    `json:"firstName,omitempty"`
	LastName  string    `json:"lastName,omitempty"`
	Disabled  bool      `json:"disabled,omitempty"`
	Password  string    `json:"password"` // its hash; see accounts
	Life      string    `json:"life"`     // another one after each new password, and when he is disabled or enabled: sessions belong to one
	Created   time.Time `json:"created"`
}

// Session is a login.
type Session struct {
	ID      string    `json:"id"`
	User    string    `json:"user"`
	Life    string    `json:"life,omitempty"`    // of the local user at the login
	Groups  []string  `json:"groups,omitempty"`  // of a user of another directory, at the login
	Foreign bool      `json:"foreign,omitempty"` // the user is one of another directory
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

// APIToken is what a program shows.
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

// TokenUse is when an API token was last shown.
type TokenUse struct {
	ID   string    `json:"id"`
	Hour time.Time `json:"hour"` // its beginning
}

// Bindings are the roles of a principal. The record stays when the last one is gone: its
// revision tells since when.
type Bindings struct {
	Principal string    `json:"principal"`
	Local     bool      `json:"local"`
	Bindings  []Binding `json:"bindings"`
}

// GroupGone is written when a group has lost its last role.
type GroupGone struct {
	Change string `json:"change"` // a random id
}

// Binding is one role.
type Binding struct {
	ID     string `json:"id"`
	Role   string `json:"role"`
	Tenant string `json:"tenant"` // "*": everywhere
}
