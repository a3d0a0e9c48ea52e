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

// The security mode of the cluster, and its steps from open to enforced and back. Each step is one record; the meaning
// of each mode is implemented where requests are received (package auth) and connections (package daemon).

// securityRoutes returns the routes of the security mode.
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

// step returns the next record; daemons are the registered ones. It may be called twice.
type step func(is mastercfg.Security, daemons []contivmodel.SecurityDaemon) (mastercfg.Security, error)

// enforce closes a cluster in which all daemons present certificates, and whose store others do not reach.
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

// enforced returns the record of an enforced cluster; it fails if a daemon presents no certificate.
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

// relaxed returns the record of a permissive cluster: it authenticates clients, but refuses none because of it,
// except for changes of users, tokens or roles.
func relaxed(is mastercfg.Security, _ []contivmodel.SecurityDaemon) (mastercfg.Security, error) {
	if is.Mode == mastercfg.SecurityOpen {
		return is, fault.New(fault.Mode, "security: the cluster is open, there is nothing to relax")
	}
	is.Mode = mastercfg.SecurityPermissive
	return is, nil
}

// initSecurity makes an open cluster permissive: the leader creates the CAs. An open cluster knows no admins,
// so the request is accepted only from the leader's machine.
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

// changeMode writes the record that a step returns, or with dryRun answers it.
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

// security answers the security mode of the cluster.
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

// daemons returns the registered netmasters and nodes. A node is
// secured if its registration has it, and its name belongs to a key.
func (a *API) daemons(ctx context.Context) ([]contivmodel.SecurityDaemon, error) {
	found := []contivmodel.SecurityDaemon{}
	masters, err := a.members.Masters(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range masters {
		at := net.JoinHostPort(m.HostAddr, strconv.Itoa(m.Port))
		secured := m.Authorities != ""
		if at == a.config.Self { // its registration may be out of date for a moment
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
		if first, known := byHost[n.Hostname]; !known || n.Port < first.Port { // a node has two registrations; the one with the lower port says more
			byHost[n.Hostname] = n
		}
	}
	err = a.ledger.View(func(r ledger.Reader) error {
		for host, n := range byHost {
			joined, err := ledger.Read[mastercfg.Joined](r, mastercfg.NodePrefix+host)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
			found = append(found, contivmodel.SecurityDaemon{
				Role: string(identity.Node), Name: host, Address: n.HostAddr,
				Secured: n.Authorities != "" && joined.Key != "",
			})
		}
		return nil
	})
	slices.SortFunc(found, func(a, b contivmodel.SecurityDaemon) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Name, b.Name))
	})
	return found, err
}

// securityReport answers the requests that an enforced cluster would have refused.
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

// KnownBy returns the CA certificates that sign netmasters' certificates, as PEM; empty without a CA.
func (a *API) KnownBy() string {
	all, err := a.members.Authorities()
	if err != nil {
		return ""
	}
	return string(pki.EncodeCertificates(all[pki.API].Bundle()...))
}
