// Package membership has the routes by which nodes and netmasters join a cluster and leave it, in clusters that
// authenticate their clients. It runs in the leader; package joining is the client side.
//
//	join.go        joining with a token that an admin has created (jointokens.go), renewing a certificate
//	vouched.go     joining with a token that another issuer vouches for
//	joined.go      nodes that have joined: list, remove, rekey; members.go the same for netmasters
//	nodekeys.go    revoked keys of nodes that were removed or rekeyed
//	rotation.go    replacing the CAs of the cluster
//	rotatekeys.go  replacing the keys that encrypt secrets in the store
//
// Both replacements run in steps: all members receive the new CAs or keys before they are used.
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

// Config configures the membership.
type Config struct {
	Name        string                                // name of this netmaster in its certificates
	LeafLife    time.Duration                         // lifetime of certificates; 0: pki.LeafLife
	Authorities func() pki.Authorities                // CAs that sign certificates; nil, or a nil result: there are none
	Replace     func(seen, all pki.Authorities) error // replaces the CAs, if the present ones are still those seen; nil: not possible
	Vouch       Vouch                                 // verifies join tokens of another issuer; nil: none are accepted
	StoreClosed bool                                  // only netmasters have access to the store
	// AddMember adds a member to the store that netmasters embed, and
	// returns the peer URLs of all members by name; nil: not supported.
	AddMember func(ctx context.Context, name, peerURL string) (map[string]string, error)
}

// Term is the part of the API's term that the membership uses.
type Term struct {
	Ledger    master.Ledger                                                   // authorizes plans by their caller
	Services  func(ctx context.Context, name string) ([]objdb.Service, error) // registrations of a service
	SealPlain func(*ledger.Tx) (count int, err error)                         // encrypts secrets of objects that are stored as plain text
	Now       func() time.Time
	Keyring   *keyring.Keyring // encrypts secrets in the store; nil: there are no secrets
	Log       *logrus.Entry
}

// Members are the nodes and netmasters of the cluster, in the leader's term.
type Members struct {
	config   Config
	term     Term
	vouches  vouches
	rotating sync.Mutex // held while CAs or keys are replaced
}

// New returns the membership of a term.
func New(config Config, term Term) *Members {
	return &Members{config: config, term: term, vouches: newVouches()}
}

// Routes returns the routes for joining, for members that have joined, and for the CAs and keys of the cluster.
func (m *Members) Routes() []rest.Route {
	return []rest.Route{
		rest.At(mastercfg.AuthorityPath, rights.Public, rest.Methods{http.MethodGet: m.authority}),
		rest.At(mastercfg.JoinPath, rights.Public, rest.Methods{http.MethodPost: notOpen(rest.WithBody(m.join))}), // authenticated by a token
		rest.At(mastercfg.RenewPath, rights.Public, rest.Methods{http.MethodPost: rest.WithBody(m.renew)}),        // authenticated by a certificate that may have expired
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

// Authorities returns the CAs that this netmaster signs with.
func (m *Members) Authorities() (pki.Authorities, error) {
	if m.config.Authorities != nil {
		if all := m.config.Authorities(); all != nil {
			return all, nil
		}
	}
	return nil, fault.New(fault.Mode, "this cluster has no authorities for certificates: netctl security init makes them")
}

// authority answers the cluster's id and CA certificates.
func (m *Members) authority(*http.Request) (rest.Reply, error) {
	all, err := m.Authorities()
	if err != nil {
		return rest.Reply{}, err
	}
	return rest.Reply{Body: mastercfg.Authority{Cluster: all.Cluster(), Authorities: string(pki.EncodeCertificates(all[pki.API].Bundle()...))}}, nil
}
