package objects

import (
	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

// Secret fields of objects are in the store as the keyring has sealed them for the place of the object, where the cluster's record
// says so: where the store lets in netmasters only. What agents have to know of them (the record of a BGP speaker, with the same sealed
// text) they are told by the gate of a netmaster, which opens it. Where agents may read the store themselves, it has the texts as
// they are. A cluster of an earlier version has its secrets sealed when the key of the keyring is replaced next.

// seals tells whether secrets are to be sealed.
func seals(r ledger.Reader) (bool, error) {
	record, err := ledger.Read[mastercfg.Security](r, mastercfg.SecurityKey)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return record.Sealed, err
}

// Opened is a secret as it was given: one that is stored plainly is that itself.
func (c *Config) Opened(place, text string) (string, error) {
	if !secret.Sealed(text) {
		return text, nil
	}
	return c.Keyring.Open(place, text)
}

// Sealed is an object as it is stored: its secrets sealed, but those that the stored one has, too, which stay
// as they are there. It leaves both as they are; without a stored one that is nil.
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

// SealPlain seals what was stored plainly before secrets of objects were sealed, and has the records of agents have the same texts
// as the objects.
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
