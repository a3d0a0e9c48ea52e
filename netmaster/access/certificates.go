package access

import (
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// mostCertificates is how many of a user count: the oldest makes room.
const mostCertificates = 16

// KeepCertificate notes a certificate of a local user, at the time of its making. It counts until it expires, or the user is removed or
// has another password, or DropCertificates.
func KeepCertificate(tx *ledger.Tx, c mastercfg.UserCertificate) error {
	user, err := UserAt(tx, c.User)
	if err != nil {
		return err
	}
	c.Life = user.Life
	left, oldest := 0, mastercfg.UserCertificate{}
	err = ledger.ReadEach(tx, mastercfg.UserCertificateKey(c.User, ""), func(key string, other mastercfg.UserCertificate) error {
		switch {
		case !c.Created.Before(other.Expires) || other.Life != c.Life:
			tx.Delete(key)
			return nil
		case left == 0 || other.Created.Before(oldest.Created):
			oldest = other
		}
		left++
		return nil
	})
	if err != nil {
		return err
	}
	if left >= mostCertificates {
		tx.Delete(mastercfg.UserCertificateKey(oldest.User, oldest.Key))
	}
	return ledger.Write(tx, mastercfg.UserCertificateKey(c.User, c.Key), c)
}

// DropCertificates ends all certificates of a user.
func DropCertificates(tx *ledger.Tx, name string) error {
	return ledger.ReadEach(tx, mastercfg.UserCertificateKey(name, ""), func(key string, _ mastercfg.UserCertificate) error {
		tx.Delete(key)
		return nil
	})
}

// holdsCertificate fails unless the certificate that a user shows is one that counts. Time is not looked at: who shows
// it has been asked for a certificate that is good now.
func holdsCertificate(r ledger.Reader, user mastercfg.LocalUser, who identity.Identity) error {
	c, err := ledger.ReadShared[mastercfg.UserCertificate](r, mastercfg.UserCertificateKey(user.Name, who.KeyHash))
	if fault.Is(err, fault.NotFound) || err == nil && c.Life != user.Life {
		return nobody("this certificate of user %s does not count any more: netctl user cert makes another one", user.Name)
	}
	return err
}
