// Package membership has the routes by which nodes and netmasters join a cluster and leave it, in clusters that authenticate their
// clients. It runs in the leader; package joining is the other side.
//
//	join.go        joining with a token that an admin has made (jointokens.go), renewing a certificate
//	vouched.go     joining with a token that somebody else vouches for
//	joined.go      nodes that have joined: listed, removed, rekeyed; members.go the same of netmasters
//	nodekeys.go    keys of nodes that were removed or rekeyed, with which nobody joins again
//	rotation.go    replacing the authorities of the cluster
//	rotatekeys.go  replacing the keys by which secrets in the store are sealed
//
// Both replacements go in steps: all members are given what is new before any of it is used.
package membership

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/netmaster/rights"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// Config is what the membership needs to know of the daemon.
type Config struct {
	Name        string                                // of this netmaster in its certificates
	LeafLife    time.Duration                         // of certificates; 0: pki.LeafLife
	Authorities func() pki.Authorities                // that sign certificates; nil, or none returned: there are none
	Replace     func(seen, all pki.Authorities) error // replaces the authorities, if the present ones are still those seen; nil: it cannot
	Vouch       Vouch                                 // for tokens of others that let somebody join; nil: nobody does
	StoreClosed bool                                  // the store lets in netmasters only
	// AddMember has the store that netmasters embed expect another member, and returns the peer URLs of
	// all by name; nil: members are not added.
	AddMember func(ctx context.Context, name, peerURL string) (map[string]string, error)
}

// Term is what the membership has from the API of its term.
type Term struct {
	Ledger    master.Ledger                                                   // whose plans are judged by who asks
	Services  func(ctx context.Context, name string) ([]objdb.Service, error) // who is registered
	SealPlain func(*ledger.Tx) (count int, err error)                         // seals what objects have in the store that is not sealed yet
	Now       func() time.Time
	Keyring   *keyring.Keyring // of secrets in the store; nil: none are kept
	Log       *logrus.Entry
}

// Members are the nodes and netmasters of the cluster, as the leader of one term has them.
type Members struct {
	config   Config
	term     Term
	vouches  vouches
	rotating sync.Mutex // held while authorities, or keys, are replaced
}

// New makes that of a term.
func New(config Config, term Term) *Members {
	return &Members{config: config, term: term, vouches: newVouches()}
}

// Routes are the routes for joining, for those that have joined, and for the authorities and keys that they know each other by.
func (m *Members) Routes() []rest.Route {
	return []rest.Route{
		rest.At(mastercfg.AuthorityPath, rights.Public, rest.Methods{http.MethodGet: m.authority}),
		rest.At(mastercfg.JoinPath, rights.Public, rest.Methods{http.MethodPost: notOpen(rest.WithBody(m.join))}), // a token is shown
		rest.At(mastercfg.RenewPath, rights.Public, rest.Methods{http.MethodPost: rest.WithBody(m.renew)}),        // a certificate that may have expired
		rest.At(mastercfg.AuthoritiesPath, rights.Public, rest.Methods{http.MethodGet: m.mastersOnly("the keys of the authorities", m.handOver)}),
		rest.At(mastercfg.StoreMembersPath, rights.Public, rest.Methods{http.MethodPost: m.mastersOnly("a member of the store", rest.WithBody(m.addMember))}),
		rest.At(mastercfg.RotatePath, rights.Access, rest.Methods{http.MethodPost: rest.WithBody(m.rotate)}),
		rest.At(mastercfg.RotateKeysPath, rights.Access, rest.Methods{http.MethodPost: rest.WithBody(m.rotateKeys)}),
		rest.At(mastercfg.JoinTokensPath, rights.Access, rest.Methods{http.MethodGet: notOpen(m.joinTokens), http.MethodPost: notOpen(rest.WithBody(m.createJoinToken))}),
		rest.At(mastercfg.JoinTokensPath+"/{id}", rights.Access, rest.Methods{http.MethodDelete: notOpen(m.removeJoinToken)}),
		rest.At(mastercfg.NodesPath, rights.Operations, rest.Methods{http.MethodGet: m.joined(mastercfg.NodePrefix)}),
		rest.At(mastercfg.NodesPath+"/{host}", rights.Access, rest.Methods{http.MethodDelete: m.removeJoined("node", mastercfg.NodePrefix)}),
		rest.At(mastercfg.NodesPath+"/{host}/rekey", rights.Access, rest.Methods{http.MethodPost: m.rekey("node", mastercfg.NodePrefix)}),
		rest.At(mastercfg.MastersPath, rights.Operations, rest.Methods{http.MethodGet: m.joined(mastercfg.MasterPrefix)}),
		rest.At(mastercfg.MastersPath+"/{host}", rights.Access, rest.Methods{http.MethodDelete: m.removeJoined("netmaster", mastercfg.MasterPrefix)}),
		rest.At(mastercfg.MastersPath+"/{host}/rekey", rights.Access, rest.Methods{http.MethodPost: m.rekey("netmaster", mastercfg.MasterPrefix)}),
	}
}

// Authorities are those that this netmaster signs with.
func (m *Members) Authorities() (pki.Authorities, error) {
	if m.config.Authorities != nil {
		if all := m.config.Authorities(); all != nil {
			return all, nil
		}
	}
	return nil, fault.New(fault.Mode, "this cluster has no authorities for certificates: netctl security init makes them")
}

// authority answers how this cluster is known.
func (m *Members) authority(*http.Request) (rest.Reply, error) {
	all, err := m.Authorities()
	if err != nil {
		return rest.Reply{}, err
	}
	return rest.Reply{Body: mastercfg.Authority{Cluster: all.Cluster(), Authorities: string(pki.EncodeCertificates(all[pki.API].Bundle()...))}}, nil
}
