package keyring

import (
	"bytes"
	"regexp"
	"strings"
)

// sealedForm is what Seal makes, wherever it is in a value of the store.
var sealedForm = regexp.MustCompile(regexp.QuoteMeta(prefix) + `[0-9a-f]+:[A-Za-z0-9+/]+=*`)

// Holds tells whether there may be something sealed in a value of the store.
func Holds(value []byte) bool { return bytes.Contains(value, []byte(prefix)) }

// Reseal seals anew with the primary what is in a value of the store and was sealed at its place
// with another key. What does not open stays as it is, and is counted: no key here fits, or it was
// never sealed.
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

// Opens tells whether all that looks sealed in a value of the store opens at its place.
func (k *Keyring) Opens(place string, value []byte) bool {
	for _, sealed := range sealedForm.FindAll(value, -1) {
		if _, err := k.Open(place, string(sealed)); err != nil {
			return false
		}
	}
	return true
}
