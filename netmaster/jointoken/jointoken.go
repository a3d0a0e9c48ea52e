// Package jointoken is the tokens that let nodes and netmasters join a cluster.
//
// A token is a text of four parts, CT1.<id>.<secret>.<pin>. The id is where the
// record of the token is; the record has a hash of the secret, so that a reader of the store
// cannot join. The pin is the hash of the key of the cluster's authority: a machine that joins
// compares it before the secret leaves the machine, so that no man in the middle gets it.
package jointoken

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/hex"
	"path"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// Token is a join token with its secret.
type Token struct {
	ID     string
	Pin    string // hash of the CA's key, see pki.KeyHash
	secret string
}

const (
	version = "CT1"
	// Lengths of the parts in base-32 digits, and of the pin in hexadecimal ones.
	idDigits     = 10
	secretDigits = 26 // 130 bits
	pinDigits    = 2 * sha256.Size
)

const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

var digits = base32.NewEncoding(alphabet).WithPadding(base32.NoPadding)

// New returns a new token for the cluster with the pin.
func New(pin string) (Token, error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return Token{}, err
	}
	text := digits.EncodeToString(random)
	return Token{ID: text[:idDigits], secret: text[idDigits : idDigits+secretDigits], Pin: pin}, nil
}

// Is reports whether a text is a token of this kind, valid or not, and not that of another issuer.
func Is(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), version+".") }

// Parse parses a token. Errors are fault.Invalid and do not contain it.
func Parse(text string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	switch {
	case len(parts) != 4 || parts[0] != version:
		return Token{}, fault.New(fault.Invalid, "join token: want %s.<id>.<secret>.<pin>, as netctl token create printed it", version)
	case len(parts[1]) != idDigits || len(parts[2]) != secretDigits || len(parts[3]) != pinDigits,
		strings.Trim(parts[1]+parts[2], alphabet) != "", strings.Trim(parts[3], "0123456789abcdef") != "":
		return Token{}, fault.New(fault.Invalid, "join token: it is cut off or altered")
	}
	return Token{ID: parts[1], secret: parts[2], Pin: parts[3]}, nil
}

// Text returns the token as text. It is a secret.
func (t Token) Text() string { return strings.Join([]string{version, t.ID, t.secret, t.Pin}, ".") }

// String returns the token for logs, without the secret.
func (t Token) String() string { return version + "." + t.ID + ".(secret)" }

// GoString keeps the secret out of the output of %#v.
func (t Token) GoString() string { return t.String() }

// Digest returns the hash of the secret, which the store has.
func (t Token) Digest() string {
	sum := sha256.Sum256([]byte(t.secret))
	return hex.EncodeToString(sum[:])
}

// Prove refuses a token whose secret is not that of its record: fault.Denied.
func Prove(record mastercfg.JoinToken, t Token) error {
	if subtle.ConstantTimeCompare([]byte(record.Digest), []byte(t.Digest())) != 1 {
		return Unknown(t.ID)
	}
	return nil
}

// Admit returns an error, fault.Denied, unless the record of a token lets a host join now. again means that the same
// host has joined with this token before and may not have received the answer: it is not counted again.
func Admit(record mastercfg.JoinToken, t Token, host string, again bool, now time.Time) error {
	refused := func(reason string, args ...any) error {
		return fault.New(fault.Denied, "join token %s: "+reason, append([]any{t.ID}, args...)...)
	}
	if err := Prove(record, t); err != nil {
		return err
	}
	switch matched, err := path.Match(record.Host, host); {
	case !now.Before(record.Expires):
		return refused("it expired at %s", record.Expires.UTC().Format(time.RFC3339))
	case !mastercfg.Current(record.Created, record.Expires, now):
		return refused("it was made at %s, and here it is %s: set the clocks of the netmasters, or make another token",
			record.Created.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case err != nil || !matched:
		return refused("it is for hosts named %q, not for %q", record.Host, host)
	case record.Uses > 0 && record.Used >= record.Uses && !again:
		return refused("it was used %d times, which is all that it is good for", record.Used)
	}
	return nil
}

// Unknown returns the refusal of a token that does not exist, or has another secret. It does not reveal which, to
// protect the ids.
func Unknown(id string) error {
	return fault.New(fault.Denied, "join token %s: there is none with this id and secret; it may have been removed", id)
}

// Limits of tokens.
const (
	DefaultLife = 24 * time.Hour
	maxLife     = 365 * 24 * time.Hour
	maxUses     = 1_000_000
)

// Check validates and completes the record of a new token. Errors are fault.Invalid.
func Check(record *mastercfg.JoinToken, life time.Duration) error {
	invalid := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, "join token: "+format, args...).WithField(field)
	}
	if record.Host == "" {
		record.Host = "*"
	}
	_, err := path.Match(record.Host, "")
	switch kind := identity.Kind(record.Role); {
	case kind != identity.Node && kind != identity.Master:
		return invalid("role", "role %.40q: want node or master", record.Role)
	case life < time.Minute || life > maxLife:
		return invalid("ttl", "it would be good for %s: want 1m to %s", life, maxLife)
	case record.Uses < 0 || record.Uses > maxUses:
		return invalid("uses", "%d uses: want 1 to %d, or 0 for any number", record.Uses, maxUses)
	case err != nil || len(record.Host) > 253 || strings.Contains(record.Host, "/"):
		return invalid("host", "host %.40q: want a name, with * and ? for what differs", record.Host)
	case kind == identity.Master && len(record.Tenants) > 0:
		return invalid("tenants", "tenants are for nodes, netmasters serve all")
	}
	for _, tenant := range record.Tenants {
		if tenant == "" || strings.ContainsAny(tenant, "/:, ") {
			return invalid("tenants", "%.40q is no name of a tenant", tenant)
		}
	}
	return nil
}
