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

// content is the content of the file.
type content struct {
	Primary string            `json:"primary"`        // the key that encrypts
	Next    string            `json:"next,omitempty"` // the key that encrypts as soon as every netmaster has it
	Keys    map[string][]byte `json:"keys"`
}

// OnChange sets a function that is called when the content of the file changes. It must be called before the
// keyring is used concurrently.
func (k *Keyring) OnChange(do func()) {
	if k != nil {
		k.changed = do
	}
}

// State returns an identifier of the keyring's content, without secrets: equal states decrypt the same and encrypt
// with the same key. Empty: there is no keyring, or it cannot be read.
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

// Make creates the file, unless it exists.
func (k *Keyring) Make() error {
	_, err := k.readOrMake()
	return err
}

// HandOver returns the file for another netmaster; empty: there is none.
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

// Take merges the result of another netmaster's HandOver: its primary encrypts, and the present keys continue to
// decrypt. If the present keyring has the State named in the cluster's record, it is not changed: it may be the
// last one.
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

// Turning reports whether the next step is Turn; else it is Add.
func (k *Keyring) Turning() (bool, error) {
	c, err := k.readOrMake()
	return c.Next != "", err
}

// Add creates a key that decrypts, and will encrypt after Turn.
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

// Turn makes the key of Add the primary.
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

// read returns the content of the file, which must not be modified. It is read again when it was replaced: each
// write creates a new file.
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

// known is the state of a file when it was checked, and its content then or later.
type known struct {
	file os.FileInfo
	content
}

// readOrMake creates the file if it does not exist.
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

// change writes the modified content if it differs. An unreadable file is not replaced.
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
	if err := durable.MakeDir(filepath.Dir(k.path)); err != nil { // may be created before the CAs
		return err
	}
	if err := durable.Write(k.path, append(text, '\n')); err != nil {
		return err
	}
	k.changed()
	return nil
}
