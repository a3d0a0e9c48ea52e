package membership

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// mastersOnly refuses all clients except netmasters over TLS
// that were not removed, in every mode, before the body is read.
func (m *Members) mastersOnly(what string, serve rest.Answer) rest.Answer {
	return func(r *http.Request) (rest.Reply, error) {
		who := identity.From(r.Context())
		if who.Kind != identity.Master || r.TLS == nil {
			return rest.Reply{}, rest.Denial{Cause: fault.New(fault.Denied, "%s: for netmasters, over TLS; this is %s", what, who), Status: http.StatusForbidden}
		}
		if err := m.term.Ledger.View(func(r ledger.Reader) error {
			_, err := access.Rights(r, who, m.term.Now())
			return err
		}); err != nil {
			return rest.Reply{}, err
		}
		return serve(r)
	}
}

// removeMaster makes certificates of a netmaster invalid until one joins under its name with another key. The
// leader cannot be removed: it would lock itself out.
func (m *Members) removeMaster(tx *ledger.Tx, name string, record mastercfg.Joined) error {
	if name == m.config.Name {
		return fault.New(fault.Conflict, "netmaster %s leads: stop it, and remove it when another one leads", name)
	}
	return ledger.Write(tx, mastercfg.RemovedMasterPrefix+name, mastercfg.RemovedMaster{Host: name, Key: record.Key, Addresses: record.Addresses, Removed: m.term.Now().UTC()})
}

// forgetRemoval deletes the record of a removed netmaster's name. It refuses the removed netmaster itself, by its key
// or because it is established (it still runs with its data): it must not get the keys that replace its own.
func forgetRemoval(tx *ledger.Tx, name, key string, established bool) error {
	at := mastercfg.RemovedMasterPrefix + name
	switch removed, err := ledger.Read[mastercfg.RemovedMaster](tx, at); {
	case fault.Is(err, fault.NotFound):
		return nil
	case err != nil:
		return err
	case established || removed.Key == key:
		return fault.New(fault.Denied, "netmaster %s was removed at %s: it joins again when it is started with an empty --pki-dir",
			name, removed.Removed.UTC().Format(time.RFC3339)).WithField("host")
	}
	tx.Delete(at)
	return nil
}

// Masters returns the registered netmasters that were not removed: steps of a rotation wait for these.
func (m *Members) Masters(ctx context.Context) (staying []objdb.Service, err error) {
	all, err := m.term.Services(ctx, mastercfg.MasterService)
	if err != nil {
		return nil, err
	}
	err = m.term.Ledger.View(func(r ledger.Reader) error {
		removed, err := ledger.ReadAll[mastercfg.RemovedMaster](r, mastercfg.RemovedMasterPrefix)
		staying = slices.DeleteFunc(all, func(s objdb.Service) bool {
			return slices.ContainsFunc(removed, func(gone mastercfg.RemovedMaster) bool { return isRegistrationOf(s, gone) })
		})
		return err
	})
	return staying, err
}

// isRegistrationOf reports whether a registration is that of a removed
// netmaster. A registration of an earlier version has no name.
func isRegistrationOf(s objdb.Service, gone mastercfg.RemovedMaster) bool {
	if s.Hostname != "" {
		return s.Hostname == gone.Host
	}
	return slices.Contains(gone.Addresses, s.HostAddr)
}

// addMember adds the member of another netmaster to the store. It has no vote until it has caught up, so a
// member that never starts does no harm.
func (m *Members) addMember(r *http.Request, request *mastercfg.AddMemberRequest) (rest.Reply, error) {
	if m.config.AddMember == nil {
		return rest.Reply{}, fault.New(fault.Mode, "the store of this cluster is not one that netmasters embed with https peer URLs: nobody is added to it")
	}
	auth.CallerFrom(r.Context()).SetSubject("member " + request.Name)
	peers, err := m.config.AddMember(r.Context(), request.Name, request.PeerURL)
	return rest.Reply{Body: mastercfg.AddMemberResponse{Peers: peers}}, err
}
