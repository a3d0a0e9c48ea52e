package logins

import (
	"fmt"
	"net/http"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// userCertForm is a certificate for a user, with the CAs of the servers.
type userCertForm struct {
	Username    string    `json:"username"`
	Certificate string    `json:"certificate"` // PEM
	Authorities string    `json:"authorities"` // PEM
	Expires     time.Time `json:"expires"`
}

// createUserCert issues a certificate for the key of a local user. Users get certificates for themselves in a
// session only: if a certificate were enough, a stolen key would be valid for ever. Admins, who could set any
// password as well, get certificates for any user.
func (l *Logins) createUserCert(r *http.Request) (rest.Reply, error) {
	who := auth.CallerFrom(r.Context()).Who
	name, err := l.userOf(r, rights.Change, who.Session != "")
	if fault.Is(err, fault.Denied) && who.Kind == identity.User && who.Session == "" && who.Name == name {
		err = rest.Denial{Cause: fault.New(fault.Denied, "user %s: with a certificate alone there is no other one: log in first", name), Status: http.StatusForbidden}
	}
	if err != nil {
		return rest.Reply{}, err
	}
	var sent struct{ CSR []byte } // DER
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	if err := mastercfg.CheckCSR(sent.CSR); err != nil {
		return rest.Reply{}, err
	}
	now := l.config.Now().UTC()
	signed, by, err := l.config.Certify(name, sent.CSR)
	if err != nil {
		return rest.Reply{}, err
	}
	auth.CallerFrom(r.Context()).SetSubject(fmt.Sprintf("%s/%s with key %s", identity.User, name, pki.KeyHash(signed)))
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		return access.KeepCertificate(tx, mastercfg.UserCertificate{
			User: name, Key: pki.KeyHash(signed), Creator: who.String(), Created: now, Expires: signed.NotAfter,
		})
	})
	return rest.Reply{Code: http.StatusCreated, Revision: rev, Body: userCertForm{Username: name, Certificate: string(pki.EncodeCertificates(signed)),
		Authorities: string(pki.EncodeCertificates(by[pki.API].Bundle()...)), Expires: signed.NotAfter}}, err
}

// madeUserCert is a certificate of a user in JSON.
type madeUserCert struct {
	Key     string    `json:"key"`     // hash of its public key, as openssl pkey -pubin -outform DER | sha256sum prints it
	Creator string    `json:"creator"` // who requested it
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// listUserCerts answers the valid certificates of a user.
func (l *Logins) listUserCerts(r *http.Request) (rest.Reply, error) {
	name, err := l.userOf(r, rights.Read, true)
	if err != nil {
		return rest.Reply{}, err
	}
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		forms := []madeUserCert{}
		all, err := access.Certificates(reader, name, l.config.Now())
		for _, c := range all {
			forms = append(forms, madeUserCert{Key: c.Key, Creator: c.Creator, Created: c.Created, Expires: c.Expires})
		}
		return rest.Reply{Body: forms}, err
	}}, nil
}

// dropUserCerts revokes all certificates of a user.
func (l *Logins) dropUserCerts(r *http.Request) (rest.Reply, error) {
	name, err := l.userOf(r, rights.Change, true)
	if err != nil {
		return rest.Reply{}, err
	}
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		if _, err := access.UserAt(tx, name); err != nil {
			return err
		}
		return access.DropCertificates(tx, name)
	})
	return rest.Reply{Code: http.StatusNoContent, Revision: rev}, err
}
