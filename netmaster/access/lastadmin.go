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

// KeepsAdmin refuses a change of a user or a token after which nobody could administer the cluster: who made it
// would lock everybody out but root. An admin is a local user who is not disabled, and a group
// whose directory or provider the cluster knows; who is in it, only that can tell. API tokens do not count: they end.
func KeepsAdmin(r ledger.Reader, by identity.Identity) error {
	if by.Kind != identity.User && by.Kind != identity.Token {
		return nil
	}
	found := false
	err := ledger.ReadEach(r, mastercfg.BindingsPrefix, func(_ string, of mastercfg.Bindings) error {
		isAdmin := slices.ContainsFunc(of.Bindings, func(b mastercfg.Binding) bool { return b.Role == string(rights.Admin) })
		found = found || isAdmin && mayLogIn(r, of)
		return nil
	})
	if err == nil && !found {
		return fault.New(fault.Conflict, "%s %s: nobody would be left who is admin", by.Kind, by.Name)
	}
	return err
}

// mayLogIn tells whether somebody can whom bindings are about.
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
