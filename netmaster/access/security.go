package access

import (
	"slices"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// ModeOf returns the security mode of the cluster.
func ModeOf(r ledger.Reader) (mastercfg.SecurityMode, error) {
	s, err := SecurityOf(r)
	return s.Mode, err
}

// SecurityOf returns the record of security. A cluster without one is open.
func SecurityOf(r ledger.Reader) (mastercfg.Security, error) {
	if _, there := r.Get(mastercfg.SecurityKey); !there {
		return mastercfg.Security{Mode: mastercfg.SecurityOpen}, nil
	}
	shared, err := ledger.ReadShared[mastercfg.Security](r, mastercfg.SecurityKey)
	s := *shared
	if err == nil && !slices.Contains([]mastercfg.SecurityMode{mastercfg.SecurityOpen, mastercfg.SecurityPermissive, mastercfg.SecurityEnforced}, s.Mode) {
		err = fault.New(fault.Internal, "key %s: there is no mode %q", mastercfg.SecurityKey, s.Mode)
	}
	return s, err
}

// SetSecurity writes the record. In a cluster that was open it removes all join tokens: present netmasters issue
// none then, but those of earlier versions issued them to every client.
func SetSecurity(tx *ledger.Tx, is mastercfg.Security) error {
	was, err := ModeOf(tx)
	if err != nil {
		return err
	}
	if was == mastercfg.SecurityOpen {
		DropJoinTokens(tx)
	}
	return ledger.Write(tx, mastercfg.SecurityKey, is)
}

// DropJoinTokens removes all join tokens.
func DropJoinTokens(tx *ledger.Tx) {
	tx.Range(mastercfg.JoinTokenPrefix, func(key string, _ []byte) bool {
		tx.Delete(key)
		return true
	})
}
