package access

import (
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// mostCertificates is how many a user has, with those that have ended lately: the oldest makes room.
const mostCertificates = 16

// KeepCertificate notes a certificate of a local user, at the time of its making. It counts until it expires, or the user is removed or
// disabled or has another password, or DropCertificates.
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

// counts tells whether a certificate is one of a user as he is.
func counts(c mastercfg.UserCertificate, user mastercfg.LocalUser, now time.Time) bool {
	return c.Life == user.Life && mastercfg.Current(c.Created, c.Expires, now)
}

// Certificates are those of a user that count.
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

// DropCertificates ends all certificates of a user.
func DropCertificates(tx *ledger.Tx, name string) error {
	return ledger.ReadEach(tx, mastercfg.UserCertificateKey(name, ""), func(key string, _ mastercfg.UserCertificate) error {
		tx.Delete(key)
		return nil
	})
}

// holdsCertificate fails unless the certificate that a user shows is one that counts.
func holdsCertificate(r ledger.Reader, user mastercfg.LocalUser, who identity.Identity, now time.Time) error {
	c, err := ledger.ReadShared[mastercfg.UserCertificate](r, mastercfg.UserCertificateKey(user.Name, who.KeyHash))
	if fault.Is(err, fault.NotFound) || err == nil && !counts(*c, user, now) {
		return errNotAuthenticated("this certificate of user %s does not count any more: netctl user cert makes another one", user.Name)
	}
	return err
}
