package keyring

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/contiv/netplugin/utils/fault"
)

// Values seals values of the store as a whole (netmaster --encrypt-values), in
//
//	enc:v1:<id of the key>:<nonce and AES-256-GCM>
//
// without base64: nobody but netmasters has a use for them. Secrets in them are sealed once more, as ever. It is an objdb.Values.
type Values struct {
	ring    *Keyring
	sealing atomic.Bool
	met     atomic.Bool
}

// Values opens what is sealed in the store, and seals when SetSealing says so, with a key that is there: another one, made where the
// keyring was lost, would open for nobody else. There is one for each keyring.
func (k *Keyring) Values() *Values { return &Values{ring: k} }

// Sealing tells whether values are sealed from now on.
func (v *Values) Sealing() bool { return v.sealing.Load() }

// SetSealing says so.
func (v *Values) SetSealing(is bool) { v.sealing.Store(is) }

// Met tells whether any value that came was sealed.
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

// Open implements objdb.Values. A value of which the key is not here is an error: that ends when this netmaster is
// given the keyring of the others. One that is damaged, or was moved from another place, stays as it is, which is
// nothing that anybody takes for a record.
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

// IsCurrent tells whether what is stored is as it would be stored now: sealed with the primary, or not at all.
func (v *Values) IsCurrent(stored []byte) (bool, error) {
	id, _, is := splitSealed(stored)
	if !v.Sealing() {
		return !is, nil
	}
	keys, err := v.ring.read()
	return is && id == keys.Primary, err
}

// splitSealed is the key that a value was sealed with, and what it made of it.
func splitSealed(stored []byte) (id string, sealed []byte, is bool) {
	rest, is := bytes.CutPrefix(stored, []byte(prefix))
	if !is {
		return "", nil, false
	}
	head, sealed, is := bytes.Cut(rest, []byte(":"))
	return string(head), sealed, is
}
