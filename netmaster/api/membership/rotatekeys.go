package membership

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// The key that encrypts secrets in the store is replaced in two steps: all netmasters receive the new key
// (add); then it becomes the primary key, and all secrets are encrypted with it (turn). The second step waits
// until every registered netmaster has the key: the next leader must be able to decrypt.

// rotateKeys executes the next step. The keyring is on the disk of this
// netmaster before the record names it; then the others request it.
func (m *Members) rotateKeys(r *http.Request, request *mastercfg.RotateRequest) (rest.Reply, error) {
	m.rotating.Lock()
	defer m.rotating.Unlock()
	keys := m.term.Keyring
	record, err := m.securityRecord()
	if err != nil {
		return rest.Reply{}, err
	}
	turning, err := keys.Turning()
	if err != nil {
		return rest.Reply{}, err
	}
	said := mastercfg.KeysRotation{Step: "add"}
	switch {
	case record.Keyring != keys.State(): // a step was interrupted before the record named what it has made
		// Plain text in the store is encrypted by a step that was not interrupted.
		said.Step, said.Done = "again", !turning && record.Sealed
	case turning:
		said.Step, said.Done = "turn", true
		if err := m.allHave(r.Context(), keys.State()); err != nil {
			return rest.Reply{}, err
		}
	}
	auth.CallerFrom(r.Context()).SetSubject(aboutStep(said.Step, request.DryRun))
	if request.DryRun {
		return rest.Reply{Body: said}, nil
	}
	switch said.Step {
	case "add":
		err = keys.Add()
	case "turn":
		err = keys.Turn()
	}
	if err != nil {
		return rest.Reply{}, err
	}
	rev, err := m.resealAll(r.Context(), &said)
	if err == nil && said.Left > 0 {
		m.term.Log.WithField("count", said.Left).Warn("texts in the store look sealed and do not open with any key of the keyring: they stay as they are")
	}
	return rest.Reply{Body: said, Revision: rev}, err
}

// allHave refuses a step while a registered netmaster has another keyring.
func (m *Members) allHave(ctx context.Context, state string) error {
	masters, err := m.Masters(ctx)
	if err != nil {
		return err
	}
	var behind []string
	for _, other := range masters {
		if other.Keyring != state {
			behind = append(behind, other.HostAddr)
		}
	}
	if slices.Sort(behind); len(behind) > 0 {
		return fault.New(fault.Conflict, "keyring: the next step waits for the netmasters at %s, which do not have the key of the last one yet: some seconds, else see their logs",
			strings.Join(slices.Compact(behind), ", "))
	}
	return nil
}

// allSeal reports whether only netmasters have access to the store, and each registered one decrypts values for
// agents: an older version does not.
func (m *Members) allSeal(ctx context.Context) (bool, error) {
	masters, err := m.Masters(ctx)
	if err != nil || !m.config.StoreClosed {
		return false, err
	}
	return !slices.ContainsFunc(masters, func(other objdb.Service) bool { return !other.Seals }), nil
}

// resealAll writes the keyring to the record and encrypts all secrets in the store with its primary key; in the
// step in which all netmasters have the keys, also the values of objects.
func (m *Members) resealAll(ctx context.Context, said *mastercfg.KeysRotation) (int64, error) {
	all := said.Step == "turn"
	if all {
		var err error
		if all, err = m.allSeal(ctx); err != nil {
			return 0, err
		}
	}
	var found []string
	if err := m.term.Ledger.View(func(r ledger.Reader) error {
		EachSealed(r, func(key string, _ []byte) { found = append(found, key) })
		return nil
	}); err != nil {
		return 0, err
	}
	return m.term.Ledger.Update(ctx, func(tx *ledger.Tx) error {
		said.Resealed, said.Left = 0, 0
		for _, key := range found {
			value, _ := tx.Get(key) // empty, if it was removed meanwhile
			now, resealed, left, err := m.term.Keyring.Reseal(key, value)
			if err != nil {
				return err
			}
			if said.Left += left; resealed > 0 {
				said.Resealed += resealed
				tx.Put(key, now)
			}
		}
		record, err := ledger.Read[mastercfg.Security](tx, mastercfg.SecurityKey)
		if err != nil {
			return err
		}
		record.Keyring, record.Sealed = m.term.Keyring.State(), record.Sealed || all
		if record.Sealed {
			fresh, err := m.term.SealPlain(tx)
			if err != nil {
				return err
			}
			said.Resealed += fresh
		}
		return ledger.Write(tx, mastercfg.SecurityKey, record)
	})
}

// EachSealed calls a function with each key of the store, and its value, that may have encrypted parts. A secret is
// bound to its key: the encrypted part of a BGP speaker's record is a copy of that in its object, and skipped.
func EachSealed(r ledger.Reader, do func(key string, value []byte)) {
	for _, root := range []string{mastercfg.ModelRoot, mastercfg.StateRoot, mastercfg.AccessRoot} {
		r.Range(root, func(key string, value []byte) bool {
			if keyring.Holds(value) && !strings.HasPrefix(key, mastercfg.BgpPrefix) {
				do(key, value)
			}
			return true
		})
	}
}
