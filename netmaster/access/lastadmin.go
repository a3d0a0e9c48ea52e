package access

import (
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// KeepingAdmin makes a change, and refuses it if it is made by a user or a token and no administrator would be
// left who can log in: only root could then manage the cluster. If there was none before either, as where a token
// is the only admin, nothing is refused. Administrators are local users who are not disabled, and groups of a
// configured directory or provider, whose members are unknown here. API tokens do not count: they expire.
func KeepingAdmin(r ledger.Reader, by identity.Identity, change func() error) error {
	if by.Kind != identity.User && by.Kind != identity.Token {
		return change()
	}
	before, err := hasAdmin(r)
	if err != nil {
		return err
	}
	if err := change(); err != nil {
		return err
	}
	after, err := hasAdmin(r)
	if err == nil && before && !after {
		return fault.New(fault.Conflict, "%s %s: nobody would be left who is admin", by.Kind, by.Name)
	}
	return err
}

func hasAdmin(r ledger.Reader) (found bool, err error) {
	err = ledger.ReadEach(r, mastercfg.BindingsPrefix, func(_ string, of mastercfg.Bindings) error {
		isAdmin := slices.ContainsFunc(of.Bindings, func(b mastercfg.Binding) bool { return b.Role == string(rights.Admin) })
		found = found || isAdmin && mayLogIn(r, of)
		return nil
	})
	return found, err
}

// mayLogIn reports whether the principal of bindings can log in.
func mayLogIn(r ledger.Reader, of mastercfg.Bindings) bool {
	if of.Local {
		user, err := UserAt(r, of.Principal)
		return err == nil && !user.Disabled
	}
	known := mastercfg.DirectoryKey
	if strings.HasPrefix(of.Principal, mastercfg.OpenIDPrefix) {
		known = mastercfg.OpenIDKey
	}
	_, there := r.Get(known)
	return there
}
