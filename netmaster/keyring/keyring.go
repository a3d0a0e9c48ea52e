// Package keyring encrypts ("seals") secrets that netmasters store, such as the password of their account in a
// directory: they cannot be read in the store, or in a backup of it.
//
// The keys are in a file beside the CAs, readable for root only, on each netmaster of a cluster. A netmaster
// receives it with the CAs when it joins; a follower requests it from the leader whenever the cluster's record
// names another State. One of the keys, the primary, encrypts; all of them decrypt. An encrypted secret has the
// form
//
//	enc:v1:<id of the key>:<base64 of nonce and AES-256-GCM>
//
// and can be decrypted only for its place in the store: it cannot be moved to a place where it would be shown.
// Values of the store as a whole are encrypted in a similar way, if netmasters are configured so (values.go).
//
// A key is replaced in two steps, so that nothing is ever encrypted with a key that a netmaster lacks: Add creates
// the new one; Turn makes it the primary, and everything in the store is encrypted again (Reseal). Older keys are
// retained, for backups.
package keyring

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/contiv/netplugin/utils/fault"
)

// Name of the file in the directory of the CAs.
const Name = "keyring.json"

const prefix = "enc:v1:" // secret.SealedPrefix

// Keyring is a file of keys. The zero value has no file, and cannot encrypt.
type Keyring struct {
	path    string
	known   atomic.Pointer[known]
	mu      sync.Mutex // guards changes of the file
	changed func()
}

// In returns the keyring of a directory; the file is created at the first encryption, or by Make.
func In(dir string) *Keyring {
	return &Keyring{path: filepath.Join(dir, Name), changed: func() {}}
}

// Seal encrypts a secret for a place in the store.
func (k *Keyring) Seal(place, secret string) (string, error) {
	keys, err := k.readOrMake()
	if err != nil {
		return "", err
	}
	return k.seal(keys, place, secret)
}

func (k *Keyring) seal(keys content, place, secret string) (string, error) {
	sealed, err := k.encrypt(keys, place, []byte(secret))
	return prefix + keys.Primary + ":" + base64.StdEncoding.EncodeToString(sealed), err
}

// encrypt returns nonce and ciphertext, with the primary.
func (k *Keyring) encrypt(keys content, place string, plain []byte) ([]byte, error) {
	sealing, err := cipherOf(keys.Keys[keys.Primary])
	if err != nil {
		return nil, fault.New(fault.Internal, "keyring %s: key %s: %w", k.path, keys.Primary, err)
	}
	nonce := make([]byte, sealing.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return sealing.Seal(nonce, nonce, plain, []byte(place)), nil
}

// decrypt is the inverse, with the key of an id. It fails if there is no such key, or with errDamaged.
func (k *Keyring) decrypt(keys content, id, place string, sealed []byte) ([]byte, error) {
	opening, err := cipherOf(keys.Keys[id])
	if err != nil {
		return nil, fmt.Errorf("keyring %s: key %.16q: %w", k.path, id, err)
	}
	if len(sealed) < opening.NonceSize() {
		return nil, errDamaged
	}
	plain, err := opening.Open(nil, sealed[:opening.NonceSize()], sealed[opening.NonceSize():], []byte(place))
	if err != nil {
		return nil, errDamaged
	}
	return plain, nil
}

var errDamaged = errors.New("it is damaged, or of another place")

// Open decrypts the secret of a place. The error does not show it.
func (k *Keyring) Open(place, sealed string) (string, error) {
	if k == nil || k.path == "" || !strings.HasPrefix(sealed, prefix) {
		return "", errMalformed(place)
	}
	keys, err := k.read()
	if err != nil {
		return "", fault.New(fault.Internal, "the secret at %s cannot be read: keyring %s: %w: copy that of the netmaster that has sealed it", place, k.path, err)
	}
	return k.open(keys, place, sealed)
}

func errMalformed(place string) error {
	return fault.New(fault.Internal, "the secret at %s cannot be read: it has not the form of one", place)
}

func (k *Keyring) open(keys content, place, sealed string) (string, error) {
	id, text, ok := strings.Cut(strings.TrimPrefix(sealed, prefix), ":")
	if !ok {
		return "", errMalformed(place)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", fault.New(fault.Internal, "the secret at %s cannot be read: it is damaged", place)
	}
	secret, err := k.decrypt(keys, id, place, data)
	if err != nil {
		return "", fault.New(fault.Internal, "the secret at %s cannot be read: %w", place, err)
	}
	return string(secret), nil
}

const keySize = 32

func cipherOf(key []byte) (cipher.AEAD, error) {
	if len(key) != keySize {
		return nil, errors.New("it is not there, or has not the length of one")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
