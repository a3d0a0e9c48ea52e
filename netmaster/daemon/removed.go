package daemon

import (
	"context"
	"crypto/x509"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/utils/fault"
)

// Netmasters are trusted with the identity of the clients whose requests they forward. So each netmaster, a
// follower too, knows which ones were removed: a certificate with the name of a removed one is refused.
//
// Netmasters are distinguished by name only: all have the keys of the CAs and sign their own certificates. A
// removed one could still sign for another name, until the CAs are replaced.

// removals are the names of removed netmasters, as in the store.
type removals struct {
	names atomic.Pointer[map[string]bool] // replaced as a whole; nil: unknown
}

// Run follows the records until ctx ends. The last known names stay while the store is down.
func (m *removals) Run(ctx context.Context, db *objdb.DB) {
	mirror.New(db, mastercfg.RemovedMasterPrefix, m.take).Follow(ctx)
}

func (m *removals) take(b mirror.Batch) {
	names := map[string]bool{}
	if known := m.names.Load(); known != nil && !b.Snapshot {
		names = maps.Clone(*known)
	}
	for _, e := range b.Events {
		name := strings.TrimPrefix(e.Key, mastercfg.RemovedMasterPrefix)
		if delete(names, name); e.Value != nil {
			names[name] = true
		}
	}
	m.names.Store(&names)
}

// learn reads the names from a ledger unless they are known, so that a leader that has just started
// does not refuse other netmasters.
func (m *removals) learn(opened *ledger.Ledger) error {
	names := map[string]bool{}
	err := opened.View(func(r ledger.Reader) error {
		r.Range(mastercfg.RemovedMasterPrefix, func(key string, _ []byte) bool {
			names[strings.TrimPrefix(key, mastercfg.RemovedMasterPrefix)] = true
			return true
		})
		return nil
	})
	if err == nil {
		m.names.CompareAndSwap(nil, &names)
	}
	return err
}

// has reports whether a netmaster is known to be removed.
func (m *removals) has(name string) bool {
	known := m.names.Load()
	return known != nil && (*known)[name]
}

// admit returns an error for a netmaster that was removed, and for every one until the names are known.
func (m *removals) admit(name string) error {
	switch {
	case m.names.Load() == nil:
		return fault.New(fault.Unavailable, "certificate of netmaster %s: this one does not know yet whether it was removed", name)
	case m.has(name):
		return fault.New(fault.Unauthenticated, "certificate: netmaster %s was removed, and is nobody until it joins again", name)
	}
	return nil
}

// judged is a verifier that refuses removed netmasters.
type judged struct {
	verifier
	removed *removals
}

// Identify implements verifier.
func (j judged) Identify(chain []*x509.Certificate, now time.Time) (cachedIdentity, error) {
	known, err := j.verifier.Identify(chain, now)
	if err != nil || known.who.Kind != identity.Master {
		return known, err
	}
	if err := j.removed.admit(known.who.Name); err != nil {
		return cachedIdentity{}, err
	}
	verified := known.holds
	known.holds = func(at time.Time) bool { return verified(at) && j.removed.admit(known.who.Name) == nil }
	return known, nil
}

// recordFounder makes the membership record of this netmaster, the leader, if it has none: the founder of a
// cluster has not joined, and could not be removed without a record. As before, the name is bound to no key.
func (d *Daemon) recordFounder(ctx context.Context, opened *ledger.Ledger) error {
	s, shown := d.cfg.Security, d.certificates.current.Load()
	if shown == nil || s.Name == "" {
		return nil
	}
	at := mastercfg.MasterPrefix + s.Name
	if known, err := hasAny(opened, at, mastercfg.RemovedMasterPrefix+s.Name); known || err != nil {
		return err
	}
	addresses := []string{}
	for _, addr := range s.Addresses {
		addresses = append(addresses, addr.String())
	}
	_, err := opened.Update(ctx, func(tx *ledger.Tx) error {
		return ledger.Write(tx, at, mastercfg.Joined{
			Host: s.Name, Addresses: addresses, Joined: time.Now().UTC(), Expires: shown.client.Leaf.NotAfter,
		})
	})
	return err
}

// hasAny reports whether one of the keys exists.
func hasAny(opened *ledger.Ledger, keys ...string) (any bool, err error) {
	err = opened.View(func(r ledger.Reader) error {
		for _, key := range keys {
			_, there := r.Get(key)
			any = any || there
		}
		return nil
	})
	return any, err
}
