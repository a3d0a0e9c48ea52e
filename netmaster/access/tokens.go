package access

import (
	"time"

	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// CreateToken makes an API token with a role in some tenants, "*" for everywhere. Its
// text is not stored.
func CreateToken(tx *ledger.Tx, name string, role rights.Role, tenants []string, life time.Duration, by identity.Identity, now time.Time) (mastercfg.APIToken, string, error) {
	var none mastercfg.APIToken
	if err := accounts.CheckName(name); err != nil {
		return none, "", err
	}
	if life <= 0 || life > accounts.LongestTokenLife {
		return none, "", fault.New(fault.Invalid, "token %s: it cannot last %s: want at most %s", name, life, accounts.LongestTokenLife).WithField("ttl")
	}
	if len(tenants) == 0 {
		return none, "", fault.New(fault.Invalid, "token %s: no tenant is named: want at least one, or %s", name, rights.Everywhere).WithField("tenants")
	}
	for _, tenant := range tenants {
		if err := checkGrant(tx, rights.Grant{Role: role, Tenant: tenant}); err != nil {
			return none, "", err
		}
	}
	if _, err := TokenNamed(tx, name); !fault.Is(err, fault.NotFound) {
		if err == nil {
			err = fault.New(fault.Conflict, "token %s exists", name)
		}
		return none, "", err
	}
	made := accounts.NewToken(name)
	token := mastercfg.APIToken{ID: made.ID, Name: name, Role: string(role), Tenants: tenants, Digest: made.Digest,
		Creator: by.String(), Created: now, Expires: now.Add(life)}
	return token, made.Text, ledger.Write(tx, mastercfg.APITokenKey(token.ID), token)
}

// TokenNamed finds an API token.
func TokenNamed(r ledger.Reader, name string) (found mastercfg.APIToken, err error) {
	err = ledger.ReadEach(r, mastercfg.APITokenKey(accounts.Owner(name)), func(_ string, t mastercfg.APIToken) error {
		if t.Name == name {
			found = t
		}
		return nil
	})
	if err == nil && found.ID == "" {
		err = fault.New(fault.NotFound, "token %.64q: there is none of this name", name)
	}
	return found, err
}

// DeleteToken takes an API token away.
func DeleteToken(tx *ledger.Tx, name string) error {
	token, err := TokenNamed(tx, name)
	if err == nil {
		tx.Delete(mastercfg.APITokenKey(token.ID))
		tx.Delete(mastercfg.TokenUseKey(token.ID))
	}
	return err
}

// HourOf is the hour of a use of a token, as it is stored.
func HourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// IsNews tells whether an hour of a use replaces the one that is known. A clock that went back changes nothing, but for
// what one that was far ahead has noted, which would hide each use until then.
func IsNews(hour, known time.Time) bool {
	return hour.After(known) || known.Sub(hour) > mastercfg.ClocksApart
}

// NoteUses stores the hours in which API tokens were used, by their ids. A token that was deleted meanwhile leaves nothing.
func NoteUses(tx *ledger.Tx, hours map[string]time.Time) error {
	for id, hour := range hours {
		if _, there := tx.Get(mastercfg.APITokenKey(id)); !there || !IsNews(hour, LastUse(tx, id)) {
			continue
		}
		if err := ledger.Write(tx, mastercfg.TokenUseKey(id), mastercfg.TokenUse{ID: id, Hour: hour}); err != nil {
			return err
		}
	}
	return nil
}

// LastUse is the hour in which an API token was used last; zero: it was not, or its record cannot be read, which the next
// use replaces.
func LastUse(r ledger.Reader, id string) time.Time {
	use, err := ledger.Read[mastercfg.TokenUse](r, mastercfg.TokenUseKey(id))
	if err != nil {
		return time.Time{}
	}
	return use.Hour
}
