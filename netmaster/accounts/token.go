package accounts

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"regexp"
	"time"

	"github.com/contiv/netplugin/utils/fault"
)

// Lifetimes of tokens.
const (
	SessionLife      = 10 * time.Hour // from a login, as in the original
	DefaultTokenLife = 90 * 24 * time.Hour
	LongestTokenLife = 365 * 24 * time.Hour
)

// A token is ctv1_<id>_<secret>: the id identifies the record, the secret is the proof. Only a digest of the
// secret is stored.
const tokenPrefix = "ctv1_"

var tokenForm = regexp.MustCompile(`^ctv1_([0-9a-f]{32})_([0-9a-f]{64})$`)

// Token is a new token; its text is shown once.
type Token struct {
	ID     string
	Digest string // of the secret: what is stored
	Text   string
}

// NewToken returns a new token. The ids of all tokens of one owner begin with Owner.
func NewToken(owner string) Token {
	random := make([]byte, 8+32)
	_, _ = rand.Read(random) // never fails
	id, secret := Owner(owner)+hex.EncodeToString(random[:8]), hex.EncodeToString(random[8:])
	return Token{ID: id, Digest: digest(secret), Text: tokenPrefix + id + "_" + secret}
}

// Owner returns the prefix of the ids of an owner's tokens, for listings. Owners are compared by name in addition.
func Owner(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}

// ParseToken splits the text of a token. The error does not show it.
func ParseToken(text string) (id, secret string, err error) {
	parts := tokenForm.FindStringSubmatch(text)
	if parts == nil {
		return "", "", fault.New(fault.Denied, "token: it has not the form of one")
	}
	return parts[1], parts[2], nil
}

// Proves reports whether a secret has a digest, in constant time.
func Proves(secret, stored string) bool {
	return subtle.ConstantTimeCompare([]byte(digest(secret)), []byte(stored)) == 1
}

func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}
