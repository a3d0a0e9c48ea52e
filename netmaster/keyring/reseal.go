package keyring

import (
	"bytes"
	"regexp"
	"strings"
)

// sealedForm matches a result of Seal, anywhere in a value of the store.
var sealedForm = regexp.MustCompile(regexp.QuoteMeta(prefix) + `[0-9a-f]+:[A-Za-z0-9+/]+=*`)

// Holds reports whether a value of the store may contain an encrypted secret.
func Holds(value []byte) bool { return bytes.Contains(value, []byte(prefix)) }

// Reseal encrypts the secrets in a value of the store with the primary, if they are encrypted for its place with
// another key. Those that cannot be decrypted are unchanged, and counted in left: their key is missing, or they
// were never encrypted.
func (k *Keyring) Reseal(place string, value []byte) (now []byte, resealed, left int, err error) {
	keys, err := k.readOrMake()
	if err != nil {
		return nil, 0, 0, err
	}
	now = sealedForm.ReplaceAllFunc(value, func(old []byte) []byte {
		if strings.HasPrefix(string(old), prefix+keys.Primary+":") {
			return old
		}
		secret, failed := k.open(keys, place, string(old))
		if failed != nil {
			left++
			return old
		}
		fresh, failed := k.seal(keys, place, secret)
		if failed != nil {
			err = failed
			return old
		}
		resealed++
		return []byte(fresh)
	})
	return now, resealed, left, err
}

// Opens reports whether everything in a value of the store that looks encrypted can be decrypted for its place.
func (k *Keyring) Opens(place string, value []byte) bool {
	for _, sealed := range sealedForm.FindAll(value, -1) {
		if _, err := k.Open(place, string(sealed)); err != nil {
			return false
		}
	}
	return true
}
