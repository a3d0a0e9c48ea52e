package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Secret fields of objects are encrypted in the store by the keyring, bound to the key of the object, if the
// cluster's record says so: where only netmasters have access to the store. For agents (the record of a BGP
// speaker, with the same ciphertext) the gate of a netmaster decrypts them. Where agents read the store
// themselves, secrets are in plain text. A cluster of an earlier version has its secrets encrypted when the key
// of the keyring is replaced next.

// seals reports whether secrets are to be encrypted.
func seals(r ledger.Reader) (bool, error) {
	record, err := ledger.Read[mastercfg.Security](r, mastercfg.SecurityKey)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return record.Sealed, err
}

// Opened returns a secret in plain text, whether it is stored encrypted or not.
func (c *Config) Opened(place, text string) (string, error) {
	if !secret.Sealed(text) {
		return text, nil
	}
	return c.Keyring.Open(place, text)
}

// Sealed returns an object as it is to be stored, with encrypted secrets; unchanged secrets keep the ciphertext
// of the stored object, which is nil for a new one. It changes neither.
func (c *Change) Sealed(wanted, stored contivmodel.Object) (contivmodel.Object, error) {
	sealing, err := seals(c)
	if err != nil {
		return nil, err
	}
	place := mastercfg.ModelKey(wanted.ModelType(), wanted.ModelKey())
	there := map[string]string{}
	if stored != nil {
		if _, err := contivmodel.MapSecrets(stored, func(f contivmodel.Field, text string) (string, error) {
			there[f.Name] = text
			return text, nil
		}); err != nil {
			return nil, err
		}
	}
	return contivmodel.MapSecrets(wanted, func(f contivmodel.Field, text string) (string, error) {
		has := there[f.Name]
		switch {
		case text == has:
			return text, nil
		case secret.Sealed(text):
			return "", fault.New(fault.Invalid, "%s: begins as what netmasters seal does: want another text", f.Name).WithField(f.Name)
		}
		if is, err := c.Config.Opened(place, has); err == nil && is == text {
			return has, nil
		}
		if !sealing || text == "" {
			return text, nil
		}
		return c.Config.Keyring.Seal(place, text)
	})
}

// SealPlain encrypts secrets that were stored as plain text, and writes the same ciphertexts to the records of agents.
func (c *Config) SealPlain(tx *ledger.Tx) (count int, err error) {
	var speakers []*contivmodel.Bgp
	if err := ledger.ReadEach(tx, mastercfg.ModelKey("Bgp", ""), func(_ string, b contivmodel.Bgp) error {
		speakers = append(speakers, &b)
		return nil
	}); err != nil {
		return 0, err
	}
	for _, b := range speakers {
		place := mastercfg.ModelKey("Bgp", b.Hostname)
		o, err := contivmodel.MapSecrets(b, func(_ contivmodel.Field, text string) (string, error) {
			if text == "" || secret.Sealed(text) {
				return text, nil
			}
			count++
			return c.Keyring.Seal(place, text)
		})
		if err != nil {
			return 0, err
		}
		now := o.(*contivmodel.Bgp)
		if err := master.Put(tx, now); err != nil {
			return 0, err
		}
		if err := master.DeriveBgp(tx, now); err != nil {
			return 0, err
		}
	}
	return count, nil
}
