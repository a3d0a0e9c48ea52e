package keyring

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/contiv/netplugin/utils/durable"
	"github.com/contiv/netplugin/utils/fault"
)

// content is what the file holds.
type content struct {
	Primary string            `json:"primary"`        // the key that seals
	Next    string            `json:"next,omitempty"` // the one that is to seal when every netmaster has it
	Keys    map[string][]byte `json:"keys"`
}

// OnChange has a function called when the file holds something else. It is set before others use
// the keyring.
func (k *Keyring) OnChange(do func()) {
	if k != nil {
		k.changed = do
	}
}

// State tells keyrings apart, without a secret: who has the same one can open what is sealed, and
// seals with the same key. Empty: there is none, or it cannot be read.
func (k *Keyring) State() string {
	if k == nil || k.path == "" {
		return ""
	}
	c, err := k.read()
	if err != nil {
		return ""
	}
	return c.state()
}

func (c content) state() string {
	if c.Next == "" {
		return c.Primary
	}
	return c.Primary + "," + c.Next
}

// Make makes the file, unless it is there.
func (k *Keyring) Make() error {
	_, err := k.readOrMake()
	return err
}

// HandOver is the file for another netmaster; empty: there is none.
func (k *Keyring) HandOver() (string, error) {
	if k == nil || k.path == "" {
		return "", nil
	}
	text, err := os.ReadFile(k.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fault.New(fault.Internal, "keyring: %w", err)
	}
	return string(text), nil
}

// Take adds what HandOver of another netmaster has returned: its primary seals, and the keys that
// were here before open as they did. A keyring of the state that the cluster's record names stays
// as it is when another one is handed over: it may be the last.
func (k *Keyring) Take(text, named string) error {
	var given content
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		return fault.New(fault.Invalid, "keyring that was handed over: %w", err)
	}
	for _, id := range []string{given.Primary, cmp.Or(given.Next, given.Primary)} {
		if _, err := cipherOf(given.Keys[id]); err != nil {
			return fault.New(fault.Invalid, "keyring that was handed over: key %.16q: %w", id, err)
		}
	}
	return k.change(func(c *content) error {
		if named != "" && c.state() == named && given.state() != named {
			return nil
		}
		keys := maps.Clone(given.Keys)
		for id, key := range c.Keys {
			if _, known := keys[id]; !known {
				keys[id] = key
			}
		}
		given.Keys = keys
		*c = given
		return nil
	})
}

// Turning tells whether Turn is the next step; else Add is.
func (k *Keyring) Turning() (bool, error) {
	c, err := k.readOrMake()
	return c.Next != "", err
}

// Add makes a key that opens, and is to seal after Turn.
func (k *Keyring) Add() error {
	return k.change(func(c *content) error {
		if c.Next != "" {
			return nil
		}
		id, key := newKey()
		if c.Next = id; c.Primary == "" {
			c.Primary, c.Next = id, ""
		}
		c.Keys[id] = key
		return nil
	})
}

// Turn has the key of Add seal.
func (k *Keyring) Turn() error {
	return k.change(func(c *content) error {
		if c.Next != "" {
			c.Primary, c.Next = c.Next, ""
		}
		return nil
	})
}

func newKey() (id string, key []byte) {
	name, key := make([]byte, 4), make([]byte, keySize)
	_, _ = rand.Read(name) // never fails
	_, _ = rand.Read(key)
	return hex.EncodeToString(name), key
}

// read is what the file holds, which nobody changes. It is read again when it is another file: each is put in the place of the one before.
func (k *Keyring) read() (c content, err error) {
	is, err := os.Stat(k.path)
	if err != nil {
		return c, err
	}
	if known := k.known.Load(); known != nil && os.SameFile(known.file, is) && known.file.ModTime().Equal(is.ModTime()) && known.file.Size() == is.Size() {
		return known.content, nil
	}
	text, err := os.ReadFile(k.path)
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err == nil {
		k.known.Store(&known{is, c})
	}
	return c, err
}

// known is what a file was when it was looked at, and what it held then, or after it.
type known struct {
	file os.FileInfo
	content
}

// readOrMake makes the file if it is not there.
func (k *Keyring) readOrMake() (c content, err error) {
	if k != nil && k.path != "" {
		if c, err = k.read(); err == nil && c.Primary != "" {
			return c, nil
		}
	}
	err = k.change(func(is *content) error {
		if is.Primary == "" {
			id, key := newKey()
			is.Primary, is.Keys[id] = id, key
		}
		c = *is
		return nil
	})
	return c, err
}

// change writes what a function makes of the file, if that is something else. A file that cannot
// be read is left alone.
func (k *Keyring) change(make func(*content) error) error {
	if k == nil || k.path == "" {
		return fault.New(fault.Mode, "this netmaster has no directory for keys, which --pki-dir names: it keeps no secrets")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	c, err := k.read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.Internal, "keyring %s: %w", k.path, err)
	}
	if c.Keys = maps.Clone(c.Keys); c.Keys == nil {
		c.Keys = map[string][]byte{}
	}
	before, count := c.state(), len(c.Keys)
	if err := make(&c); err != nil {
		return err
	}
	if c.state() == before && len(c.Keys) == count {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := durable.MakeDir(filepath.Dir(k.path)); err != nil { // it may be there before authorities are
		return err
	}
	if err := durable.Write(k.path, append(text, '\n')); err != nil {
		return err
	}
	k.changed()
	return nil
}
