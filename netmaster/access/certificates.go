package access

import (
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// mostCertificates limits the certificates of a user, with recently expired ones: the oldest is replaced.
const mostCertificates = 16

// KeepCertificate records a certificate of a local user when it is issued. It is valid until it expires, or the
// user is removed, disabled or gets another password, or DropCertificates is called.
func KeepCertificate(tx *ledger.Tx, c mastercfg.UserCertificate) error {
	user, err := UserAt(tx, c.User)
	if err != nil {
		return err
	}
	c.Life = user.Life
	var all []given
	err = ledger.ReadEach(tx, mastercfg.UserCertificateKey(c.User, ""), func(key string, other mastercfg.UserCertificate) error {
		if other.Life != user.Life || other.Key == c.Key || (expiring{other.Expires}).isOld(c.Created) {
			tx.Delete(key)
			return nil
		}
		all = append(all, given{key, counts(other, user, c.Created), other.Created})
		return nil
	})
	if err != nil {
		return err
	}
	makeRoom(tx, all, mostCertificates)
	return ledger.Write(tx, mastercfg.UserCertificateKey(c.User, c.Key), c)
}

// counts reports whether a certificate is valid for the present state of its user.
func counts(c mastercfg.UserCertificate, user mastercfg.LocalUser, now time.Time) bool {
	return c.Life == user.Life && mastercfg.Current(c.Created, c.Expires, now)
}

// Certificates returns the valid certificates of a user.
func Certificates(r ledger.Reader, name string, now time.Time) (all []mastercfg.UserCertificate, err error) {
	user, err := UserAt(r, name)
	if err != nil {
		return nil, err
	}
	err = ledger.ReadEach(r, mastercfg.UserCertificateKey(name, ""), func(_ string, c mastercfg.UserCertificate) error {
		if counts(c, user, now) {
			all = append(all, c)
		}
		return nil
	})
	return all, err
}

// DropCertificates revokes all certificates of a user.
func DropCertificates(tx *ledger.Tx, name string) error {
	return ledger.ReadEach(tx, mastercfg.UserCertificateKey(name, ""), func(key string, _ mastercfg.UserCertificate) error {
		tx.Delete(key)
		return nil
	})
}

// holdsCertificate returns an error unless the certificate of the identity is valid.
func holdsCertificate(r ledger.Reader, user mastercfg.LocalUser, who identity.Identity, now time.Time) error {
	c, err := ledger.ReadShared[mastercfg.UserCertificate](r, mastercfg.UserCertificateKey(user.Name, who.KeyHash))
	if fault.Is(err, fault.NotFound) || err == nil && !counts(*c, user, now) {
		return errNotAuthenticated("this certificate of user %s does not count any more: netctl user cert makes another one", user.Name)
	}
	return err
}
