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

// NewToken describes an API token that is to be created.
type NewToken struct {
	Name    string
	Role    rights.Role
	Tenants []string // "*": all
	Life    time.Duration
	By      identity.Identity // who creates it
}

// CreateToken creates an API token. Its text is not stored.
func CreateToken(tx *ledger.Tx, wanted NewToken, now time.Time) (mastercfg.APIToken, string, error) {
	var none mastercfg.APIToken
	if err := accounts.CheckName(wanted.Name); err != nil {
		return none, "", err
	}
	if wanted.Life <= 0 || wanted.Life > accounts.LongestTokenLife {
		return none, "", fault.New(fault.Invalid, "token %s: it cannot last %s: want at most %s", wanted.Name, wanted.Life, accounts.LongestTokenLife).WithField("ttl")
	}
	if len(wanted.Tenants) == 0 {
		return none, "", fault.New(fault.Invalid, "token %s: no tenant is named: want at least one, or %s", wanted.Name, rights.Everywhere).WithField("tenants")
	}
	for _, tenant := range wanted.Tenants {
		if err := checkGrant(tx, rights.Grant{Role: wanted.Role, Tenant: tenant}); err != nil {
			return none, "", err
		}
	}
	if _, err := TokenNamed(tx, wanted.Name); !fault.Is(err, fault.NotFound) {
		if err == nil {
			err = fault.New(fault.Conflict, "token %s exists", wanted.Name)
		}
		return none, "", err
	}
	made := accounts.NewToken(wanted.Name)
	token := mastercfg.APIToken{ID: made.ID, Name: wanted.Name, Role: string(wanted.Role), Tenants: wanted.Tenants, Digest: made.Digest,
		Creator: wanted.By.String(), Created: now, Expires: now.Add(wanted.Life)}
	return token, made.Text, ledger.Write(tx, mastercfg.APITokenKey(token.ID), token)
}

// TokenNamed returns the API token with a name.
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

// DeleteToken deletes an API token.
func DeleteToken(tx *ledger.Tx, name string) error {
	token, err := TokenNamed(tx, name)
	if err == nil {
		tx.Delete(mastercfg.APITokenKey(token.ID))
		tx.Delete(mastercfg.TokenUseKey(token.ID))
	}
	return err
}

// HourOf returns the hour of a use of a token, as it is stored.
func HourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// IsNews reports whether an hour of a use replaces the known one. An earlier hour does not, except where the known
// one is far in the future, written with a wrong clock, which would hide every use until then.
func IsNews(hour, known time.Time) bool {
	return hour.After(known) || known.Sub(hour) > mastercfg.ClocksApart
}

// NoteUses stores the hours in which API tokens were used, by id. Tokens deleted meanwhile are skipped.
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

// LastUse returns the hour in which an API token was last used; zero: it was not used, or its record cannot be
// read and is replaced at the next use.
func LastUse(r ledger.Reader, id string) time.Time {
	use, err := ledger.Read[mastercfg.TokenUse](r, mastercfg.TokenUseKey(id))
	if err != nil {
		return time.Time{}
	}
	return use.Hour
}
