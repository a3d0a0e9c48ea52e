package testdb

import (
	"bytes"
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Values is a fake encryption: it inverts one bit of each byte.
type Values struct {
	Off  atomic.Bool // new values are not encrypted
	Lost atomic.Bool // encrypted values cannot be decrypted
}

// Sealing implements objdb.Values.
func (v *Values) Sealing() bool { return !v.Off.Load() }

// Seal implements objdb.Values.
func (v *Values) Seal(_ string, value []byte) ([]byte, error) {
	return append([]byte(secret.SealedPrefix), turned(value)...), nil
}

// Open implements objdb.Values.
func (v *Values) Open(key string, stored []byte) ([]byte, error) {
	sealed, is := bytes.CutPrefix(stored, []byte(secret.SealedPrefix))
	switch {
	case !is:
		return stored, nil
	case v.Lost.Load():
		return nil, fault.New(fault.Internal, "the value of %s cannot be read: no key", key)
	}
	return turned(sealed), nil
}

func turned(value []byte) []byte {
	other := bytes.Clone(value)
	for i := range other {
		other[i] ^= 0x80
	}
	return other
}

// Plain returns the keys below a prefix with a stored value that is not encrypted or contains a text.
func Plain(t testing.TB, db *objdb.DB, prefix, text string) (plain []string) {
	t.Helper()
	stored, _, err := db.List(objdb.AsStored(context.Background()), prefix)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range stored {
		if !objdb.IsSealed(kv.Key, kv.Value) || strings.Contains(string(kv.Value), text) {
			plain = append(plain, kv.Key)
		}
	}
	return plain
}
