package keyring

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/contiv/netplugin/utils/fault"
)

// Values encrypts values of the store as a whole (netmaster --encrypt-values), in
//
//	enc:v1:<id of the key>:<nonce and AES-256-GCM>
//
// without base64, since only netmasters read them. Secrets in them are encrypted in addition, as always. It is an
// objdb.Values.
type Values struct {
	ring    *Keyring
	sealing atomic.Bool
	met     atomic.Bool
}

// Values returns the Values of the keyring: it decrypts, and encrypts when SetSealing enables that, with existing
// keys only: a new key, made where the keyring was lost, could not be decrypted elsewhere. There is one Values for
// each keyring.
func (k *Keyring) Values() *Values { return &Values{ring: k} }

// Sealing reports whether values are encrypted from now on.
func (v *Values) Sealing() bool { return v.sealing.Load() }

// SetSealing sets that.
func (v *Values) SetSealing(is bool) { v.sealing.Store(is) }

// Met reports whether any value read so far was encrypted.
func (v *Values) Met() bool { return v.met.Load() }

// Seal implements objdb.Values.
func (v *Values) Seal(key string, value []byte) ([]byte, error) {
	keys, err := v.ring.read()
	if err != nil {
		return nil, fault.New(fault.Internal, "the value of %s cannot be sealed: keyring %s: %w: copy that of a netmaster of this cluster", key, v.ring.path, err)
	}
	sealed, err := v.ring.encrypt(keys, key, value)
	return append([]byte(prefix+keys.Primary+":"), sealed...), err
}

// Open implements objdb.Values. A value whose key is missing is an error, until this netmaster receives the
// keyring of the others. A value that is damaged, or was moved from another place, is returned unchanged, which
// cannot be decoded as a record.
func (v *Values) Open(key string, stored []byte) ([]byte, error) {
	id, sealed, is := splitSealed(stored)
	if !is {
		return stored, nil
	}
	v.met.Store(true)
	keys, err := v.ring.read()
	if err != nil {
		return nil, fault.New(fault.Internal, "the value of %s cannot be read: keyring %s: %w: copy that of a netmaster of this cluster", key, v.ring.path, err)
	}
	switch value, err := v.ring.decrypt(keys, id, key, sealed); {
	case errors.Is(err, errDamaged):
		return stored, nil
	case err != nil:
		return nil, fault.New(fault.Internal, "the value of %s cannot be read: %w: copy the keyring of a netmaster that has the key", key, err)
	default:
		return value, nil
	}
}

// IsCurrent reports whether a stored value is as it would be stored now: encrypted with the primary, or not at
// all.
func (v *Values) IsCurrent(stored []byte) (bool, error) {
	id, _, is := splitSealed(stored)
	if !v.Sealing() {
		return !is, nil
	}
	keys, err := v.ring.read()
	return is && id == keys.Primary, err
}

// splitSealed returns the key id and the ciphertext of a value.
func splitSealed(stored []byte) (id string, sealed []byte, is bool) {
	rest, is := bytes.CutPrefix(stored, []byte(prefix))
	if !is {
		return "", nil, false
	}
	head, sealed, is := bytes.Cut(rest, []byte(":"))
	return string(head), sealed, is
}
