package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
)

// certified gives a user the certificate that proven presents.
func (b *bench) certified(name string, expires time.Time) {
	b.Helper()
	b.certifiedAt(name, time.Now(), expires)
}

// certifiedAt does so at another time.
func (b *bench) certifiedAt(name string, when, expires time.Time) {
	b.Helper()
	b.plan(func(tx *ledger.Tx) error {
		return access.KeepCertificate(tx, mastercfg.UserCertificate{User: name, Key: b.proven("user/" + name).KeyHash, Created: when, Expires: expires})
	})
}

// asksForCertificate returns the body of a request for one.
func asksForCertificate(t *testing.T) string {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.Request(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string][]byte{"csr": request})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// withAuthorities gives an API its signing CAs.
func withAuthorities(t *testing.T) func(*Config) {
	t.Helper()
	by, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.Authorities = func() pki.Authorities { return by } }
}

// A client with an expired session or certificate has no identity, also where requests without one are accepted
// otherwise: it cannot take over its former account.
func TestWhoHasEndedTakesNoAccount(t *testing.T) {
	for _, mode := range []mastercfg.SecurityMode{mastercfg.SecurityPermissive, mastercfg.SecurityEnforced} {
		b := secured(t, mode, withAuthorities(t))
		const own = usersPath + "/ann/"
		session := b.user("ann")
		b.certified("ann", time.Now().Add(time.Hour))
		b.want("proven:user/ann", "GET", own, "", 200, "ann")
		b.want("proven:user/ann", "GET", own+"certificates/", "", 200, "k of ann")
		b.want("proven:user/ann", "PATCH", own, `{"password":"another long password"}`, 403, "") // takes a login
		b.want("proven:user/ann", "POST", own+"certificates/", asksForCertificate(t), 403, "")   // so does that
		b.want(session, "POST", own+"certificates/", asksForCertificate(t), 201, "BEGIN CERTIFICATE")
		b.want("proven:root", "PATCH", own, `{"password":"another long password"}`, 200, "")
		for _, who := range []string{session, "proven:user/ann"} {
			b.want(who, "GET", own, "", 401, "")
			b.want(who, "PATCH", own, `{"password":"yet another password"}`, 401, "")
			b.want(who, "POST", own+"certificates/", asksForCertificate(t), 401, "")
			b.want(who, "DELETE", own+"certificates/", "", 401, "")
		}
		b.want("proven:root", "GET", own+"certificates/", "", 200, "[]")
	}
}

// A disabled user's sessions and certificates do not return when the user is enabled.
func TestSessionsAndCertificatesOfADisabledUserEndForGood(t *testing.T) {
	b := secured(t, mastercfg.SecurityEnforced, withAuthorities(t))
	const own = usersPath + "/ann/"
	had := []string{b.user("ann"), "proven:user/ann"}
	b.certified("ann", time.Now().Add(time.Hour))
	all := func(code int) {
		t.Helper()
		for _, who := range had {
			b.want(who, "GET", own, "", code, "")
		}
	}
	b.want("proven:root", "PATCH", own, `{"disable":false,"first_name":"Ann"}`, 200, "") // as clients send back what they have read
	all(200)
	b.want("proven:root", "PATCH", own, `{"disable":true}`, 200, "")
	all(401)
	b.want("proven:root", "GET", own+"certificates/", "", 200, "[]")
	b.want("proven:root", "PATCH", own, `{"disable":false}`, 200, "")
	all(401)
	b.want("proven:root", "GET", own+"certificates/", "", 200, "[]")
	// A netmaster of an earlier version has not ended the sessions of a disabled user.
	b.plan(func(tx *ledger.Tx) error {
		user, err := access.UserAt(tx, "ann")
		if err != nil {
			return err
		}
		made, err := access.Login(tx, "ann", "hash", "", time.Now())
		if err != nil {
			return err
		}
		had[0], user.Disabled = made.Text, true
		return ledger.Write(tx, mastercfg.UserKey("ann"), user)
	})
	b.want("proven:root", "PATCH", own, `{"disable":false}`, 200, "")
	all(401)
}

// A watch that was opened with a certificate ends with it: by its time, too.
func TestAWatchEndsWithTheCertificate(t *testing.T) {
	for what, end := range map[string]func(b *bench){
		"its time is over": func(*bench) {},
		"it is revoked":    func(b *bench) { b.want("proven:root", "DELETE", usersPath+"/ann/certificates/", "", 204, "") },
	} {
		b := secured(t, mastercfg.SecurityEnforced, withAuthorities(t))
		b.user("ann", rights.Grant{Role: rights.Viewer, Tenant: "*"})
		life := time.Hour
		if what == "its time is over" {
			life = 2 * time.Second
		}
		b.certified("ann", time.Now().Add(life))
		w := b.watchAs("networks/?watch=true", "proven:user/ann")
		end(b)
		for began := time.Now(); ; {
			if _, goesOn := w.next(); !goesOn {
				break
			}
			if time.Since(began) > 20*time.Second {
				t.Fatalf("goes on though %s", what)
			}
		}
	}
}
