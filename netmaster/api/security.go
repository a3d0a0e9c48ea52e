package api

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/access"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// How far the cluster is closed, and the way from open to enforced and back. Each step is
// one record; what each mode means is decided where requests enter (package auth) and where
// connections do (package daemon).

// securityRoutes are those routes.
func (a *API) securityRoutes() []rest.Route {
	relax := func(r *http.Request) (rest.Reply, error) { return a.changeMode(r, relaxed) }
	return []rest.Route{
		rest.At(mastercfg.SecurityPath, rights.Operations, rest.Methods{http.MethodGet: a.security}),
		rest.At(mastercfg.SecurityPath+"/report", rights.Operations, rest.Methods{http.MethodGet: a.securityReport}),
		rest.Trying(mastercfg.SecurityPath+"/init", rights.Access, rest.Methods{http.MethodPost: a.initSecurity}),
		rest.Trying(mastercfg.SecurityPath+"/enforce", rights.Access, rest.Methods{http.MethodPost: a.enforce}),
		rest.Trying(mastercfg.SecurityPath+"/relax", rights.Access, rest.Methods{http.MethodPost: relax}),
	}
}

// step is what becomes of the record; daemons are those that are registered. It may be asked
// twice.
type step func(is mastercfg.Security, daemons []contivmodel.SecurityDaemon) (mastercfg.Security, error)

// enforce closes a cluster all of whose daemons show who they are, and whose store nobody else reaches.
func (a *API) enforce(r *http.Request) (rest.Reply, error) {
	exposed, err := a.store.ExposedURLs(r.Context())
	if err != nil {
		return rest.Reply{}, err
	}
	return a.changeMode(r, func(is mastercfg.Security, daemons []contivmodel.SecurityDaemon) (mastercfg.Security, error) {
		closed, err := enforced(is, daemons)
		if err == nil && len(exposed) > 0 && is.Mode != mastercfg.SecurityEnforced {
			return is, fault.New(fault.Conflict, "security: the store speaks plainly with whoever reaches %s, and who does owns the cluster: "+
				"start one netmaster after the other with https in its URLs of the store, or have an etcd of your own serve clients and peers by https alone", strings.Join(exposed, ", ")).WithDetails(exposed...)
		}
		return closed, err
	})
}

// enforced is what becomes of a cluster all of whose daemons show who they are.
func enforced(is mastercfg.Security, daemons []contivmodel.SecurityDaemon) (mastercfg.Security, error) {
	if is.Mode == mastercfg.SecurityOpen {
		return is, fault.New(fault.Mode, "security: the cluster is open, and has no authorities or is not to use them: it has to be permissive before it is enforced (netctl security init)")
	}
	if plain := (contivmodel.SecurityStatus{Daemons: daemons}).Plain(); len(plain) > 0 {
		return is, fault.New(fault.Conflict, "security: %s could not go on in an enforced cluster: no certificate of it is shown", strings.Join(plain, ", ")).WithDetails(plain...)
	}
	is.Mode = mastercfg.SecurityEnforced
	return is, nil
}

// relaxed authenticates clients, and refuses none because of it, except where users, tokens or roles are changed.
func relaxed(is mastercfg.Security, _ []contivmodel.SecurityDaemon) (mastercfg.Security, error) {
	if is.Mode == mastercfg.SecurityOpen {
		return is, fault.New(fault.Mode, "security: the cluster is open, there is nothing to relax")
	}
	is.Mode = mastercfg.SecurityPermissive
	return is, nil
}

// initSecurity gives an open cluster authorities, which the leader makes, and has it ask who
// somebody is. Of an open cluster nobody can be told to be an admin, so it is taken from the machine of
// the leader only.
func (a *API) initSecurity(r *http.Request) (rest.Reply, error) {
	open := auth.CallerFrom(r.Context()) == nil
	if open && !rest.OfThisMachine(r) {
		return rest.Reply{}, rest.Denial{Status: http.StatusForbidden, Cause: fault.New(fault.Denied,
			"security: an open cluster is closed from the machine of its leader only, which is %s", a.config.Self)}
	}
	dryRun, err := rest.Flag(r, "dryRun")
	if err != nil {
		return rest.Reply{}, err
	}
	if a.config.Found == nil {
		return rest.Reply{}, fault.New(fault.Mode, "security: this netmaster has no directory for authorities (--pki-dir)")
	}
	if open && !dryRun {
		if err := a.config.Found(); err != nil {
			return rest.Reply{}, err
		}
		if keys := a.config.Keyring; keys != nil {
			if err := keys.Make(); err != nil {
				return rest.Reply{}, err
			}
		}
	}
	said, err := a.changeMode(r, func(is mastercfg.Security, _ []contivmodel.SecurityDaemon) (mastercfg.Security, error) {
		if is.Mode != mastercfg.SecurityOpen {
			return is, nil
		}
		is.Mode = mastercfg.SecurityPermissive
		if all, err := a.members.Authorities(); err == nil && is.ClusterID == "" {
			is.ClusterID, is.Keyring = all.Cluster(), a.config.Keyring.State()
		}
		return is, nil
	})
	if open && !dryRun {
		status := http.StatusOK
		if err != nil {
			status = rest.StatusOf(err)
		}
		a.entrance.NoteOpen(r, rights.Access, status, said.Revision)
	}
	return said, err
}

// changeMode writes what a step makes of the record, or says what it would be.
func (a *API) changeMode(r *http.Request, next step) (rest.Reply, error) {
	dryRun, err := rest.Flag(r, "dryRun")
	if err != nil {
		return rest.Reply{}, err
	}
	daemons, err := a.daemons(r.Context())
	if err != nil {
		return rest.Reply{}, err
	}
	var was, is mastercfg.Security
	plan := func(tx *ledger.Tx) (err error) {
		if was, err = access.SecurityOf(tx); err != nil {
			return err
		}
		if is, err = next(was, daemons); err != nil || is == was {
			return err
		}
		auth.CallerFrom(r.Context()).SetSubject(fmt.Sprintf("from %s to %s%s", was.Mode, is.Mode, map[bool]string{true: ", dry run"}[dryRun]))
		return access.SetSecurity(tx, is)
	}
	var rev int64
	if dryRun {
		err = a.ledger.Preview(r.Context(), plan)
	} else {
		rev, err = a.ledger.Update(r.Context(), plan)
	}
	if err != nil {
		return rest.Reply{}, err
	}
	said := a.securityStatus(is, daemons)
	said.Was = string(was.Mode)
	if is != was && !dryRun {
		if a.config.Changed != nil {
			a.config.Changed(is.Mode)
		}
		a.config.Log.WithField("mode", is.Mode).WithField("was", was.Mode).Warn("the cluster's security mode was changed")
	}
	return rest.Reply{Body: said, Revision: rev}, nil
}

// security answers how far the cluster is closed.
func (a *API) security(r *http.Request) (rest.Reply, error) {
	daemons, err := a.daemons(r.Context())
	if err != nil {
		return rest.Reply{}, err
	}
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		is, err := access.SecurityOf(reader)
		return rest.Reply{Body: a.securityStatus(is, daemons)}, err
	}}, nil
}

func (a *API) securityStatus(is mastercfg.Security, daemons []contivmodel.SecurityDaemon) contivmodel.SecurityStatus {
	said := contivmodel.SecurityStatus{Mode: string(is.Mode), ClusterID: is.ClusterID, Daemons: daemons}
	if all, err := a.members.Authorities(); err == nil && is.ClusterID == all.Cluster() {
		said.Pin = pki.KeyHash(all[pki.API].Certificate)
	}
	if a.config.Values != nil {
		said.Values = a.config.Values()
	}
	return said
}

// daemons are the netmasters and nodes that are registered. A node is secured if it says so,
// and its name belongs to a key.
func (a *API) daemons(ctx context.Context) ([]contivmodel.SecurityDaemon, error) {
	found := []contivmodel.SecurityDaemon{}
	masters, err := a.members.Masters(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range masters {
		at := net.JoinHostPort(m.HostAddr, strconv.Itoa(m.Port))
		secured := m.Authorities != ""
		if at == a.config.Self { // its registration may be a moment behind
			_, err := a.members.Authorities()
			secured = err == nil
		}
		found = append(found, contivmodel.SecurityDaemon{Role: string(identity.Master), Name: at, Address: at, Secured: secured})
	}
	nodes, err := a.store.Services(ctx, mastercfg.AgentService)
	if err != nil {
		return nil, err
	}
	byHost := map[string]objdb.Service{}
	for _, n := range nodes {
		if first, known := byHost[n.Hostname]; !known || n.Port < first.Port { // the first of the two of a node says more
			byHost[n.Hostname] = n
		}
	}
	err = a.ledger.View(func(r ledger.Reader) error {
		for host, n := range byHost {
			joined, err := ledger.Read[mastercfg.Joined](r, mastercfg.NodePrefix+host)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			found = append(found, contivmodel.SecurityDaemon{Role: string(identity.Node), Name: host, Address: n.HostAddr, Secured: n.Authorities != "" && joined.Key != ""})
		}
		return nil
	})
	slices.SortFunc(found, func(a, b contivmodel.SecurityDaemon) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name))
	})
	return found, err
}

// securityReport answers what an enforced cluster would have refused.
func (a *API) securityReport(r *http.Request) (rest.Reply, error) {
	said := a.config.Foreseen.Report(a.config.Now().UTC())
	if a.config.OtherReports != nil && auth.CallerFrom(r.Context()) != nil {
		others, silent, err := a.config.OtherReports(r.Context())
		if err != nil {
			return rest.Reply{}, err
		}
		for _, other := range others {
			said = auth.AddReport(said, other)
		}
		said.Silent = silent
	}
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		mode, err := access.ModeOf(r)
		said.Mode = string(mode)
		return rest.Reply{Body: said}, err
	}}, nil
}

// KnownBy is what the certificates of netmasters are signed by, as PEM; empty: nothing yet.
func (a *API) KnownBy() string {
	all, err := a.members.Authorities()
	if err != nil {
		return ""
	}
	return string(pki.EncodeCertificates(all[pki.API].Bundle()...))
}
