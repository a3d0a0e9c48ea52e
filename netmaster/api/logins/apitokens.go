package logins

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/accounts"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// tokenForm is an API token in JSON. Its text is only in the answer that creates it.
type tokenForm struct {
	Name    string    `json:"name"`
	Role    string    `json:"role"`
	Tenants []string  `json:"tenants"`
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	LastUse time.Time `json:"lastUse,omitzero"` // start of the hour; absent if never used
	Token   string    `json:"token,omitempty"`
}

func formOfToken(t mastercfg.APIToken) tokenForm {
	return tokenForm{Name: t.Name, Role: t.Role, Tenants: t.Tenants, Creator: t.Creator, Created: t.Created, Expires: t.Expires}
}

func (l *Logins) listTokens(*http.Request) (rest.Reply, error) {
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		forms := []tokenForm{}
		err := ledger.ReadEach(r, mastercfg.APITokenPrefix, func(_ string, t mastercfg.APIToken) error {
			form := formOfToken(t)
			form.LastUse = access.LastUse(r, t.ID)
			forms = append(forms, form)
			return nil
		})
		return rest.Reply{Body: forms}, err
	}}, nil
}

// createToken creates a token with the lifetime of the request, in Go's notation for durations.
func (l *Logins) createToken(r *http.Request) (rest.Reply, error) {
	var sent struct {
		Name, Role, TTL string
		Tenants         []string
	}
	if err := rest.ReadInto(r, &sent); err != nil {
		return rest.Reply{}, err
	}
	caller := auth.CallerFrom(r.Context())
	caller.SetSubject(auditTextOfToken(sent.Name, sent.Role, sent.Tenants))
	wanted := access.NewToken{Name: sent.Name, Role: rights.Role(sent.Role), Tenants: sent.Tenants, Life: accounts.DefaultTokenLife}
	if sent.TTL != "" {
		var err error
		if wanted.Life, err = time.ParseDuration(sent.TTL); err != nil {
			return rest.Reply{}, fault.New(fault.Invalid, "token %.64q: ttl %.64q is no duration such as 720h", sent.Name, sent.TTL).WithField("ttl")
		}
	}
	var form tokenForm
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		wanted.By = caller.Who
		made, text, err := access.CreateToken(tx, wanted, l.config.Now())
		form = formOfToken(made)
		form.Token = text
		return err
	})
	return rest.Reply{Code: http.StatusCreated, Body: form, Revision: rev}, err
}

// auditTextOfToken describes a token for the audit log. The tenants come last, because long texts are cut.
func auditTextOfToken(name, role string, tenants []string) string {
	return fmt.Sprintf("%s/%s: %s in %s", identity.Token, name, role, strings.Join(slices.Compact(slices.Sorted(slices.Values(tenants))), ","))
}

func (l *Logins) deleteToken(r *http.Request) (rest.Reply, error) {
	rev, err := l.config.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		name := mux.Vars(r)["name"]
		if token, err := access.TokenNamed(tx, name); err == nil {
			auth.CallerFrom(r.Context()).SetSubject(auditTextOfToken(name, token.Role, token.Tenants))
		}
		return access.DeleteToken(tx, name)
	})
	return rest.Reply{Code: http.StatusNoContent, Revision: rev}, err
}
