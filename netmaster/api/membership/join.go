package membership

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/jointoken"
	"github.com/contiv/netplugin/netmaster/keyring"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// renewable is how long after its expiry a node can renew its certificate, so that a cluster that was switched
// off for a while recovers by itself.
const renewable = 90 * 24 * time.Hour

// join admits a node or a netmaster with a join token to the cluster. From then on its name belongs to its key.
// A client that has not received the answer retries with the same key, and is not counted twice.
func (m *Members) join(r *http.Request, request *mastercfg.JoinRequest) (rest.Reply, error) {
	if err := Confidential(r); err != nil {
		return rest.Reply{}, err
	}
	if m.config.Vouch != nil && !jointoken.Is(request.Token) {
		return m.joinVouched(r, request)
	}
	token, err := jointoken.Parse(request.Token)
	if err != nil {
		return rest.Reply{}, err
	}
	wanted, err := m.asked(request.CSR)
	if err != nil {
		return rest.Reply{}, err
	}
	rev, err := m.term.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		record, err := ledger.Read[mastercfg.JoinToken](tx, mastercfg.JoinTokenPrefix+token.ID)
		if err != nil {
			return orMissing(err, jointoken.Unknown(token.ID))
		}
		if err := jointoken.Prove(record, token); err != nil {
			return err
		}
		auth.CallerFrom(r.Context()).SetProvenSubject(fmt.Sprintf("%s/%s with key %s by join token %s", record.Role, request.Host, wanted.hash, record.ID))
		return joinByToken(tx, request, token, record, wanted)
	})
	return rest.Reply{Body: wanted.answer, Revision: rev}, err
}

// joinByToken is the part of join's plan after the token was verified: it may be for another name, or used up.
func joinByToken(tx *ledger.Tx, request *mastercfg.JoinRequest, token jointoken.Token, record mastercfg.JoinToken, wanted *certificate) error {
	kind := identity.Kind(record.Role)
	// First: a node that learns that its key was revoked tries another key, which may have joined.
	if err := checkNotRevoked(tx, kind, wanted.hash); err != nil {
		return err
	}
	at := recordKey(record.Role, request.Host)
	before, err := ledger.Read[mastercfg.Joined](tx, at)
	isKnown := err == nil
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	again := isKnown && before.Key == wanted.hash && before.Token == record.ID
	if err := jointoken.Admit(record, token, request.Host, again, wanted.now); err != nil {
		return err
	}
	if isKnown && before.Key != "" && before.Key != wanted.hash {
		return fault.New(fault.Conflict, "%s %s has joined with another key; if that is lost, netctl node rekey %s lets it join once more",
			record.Role, request.Host, request.Host).WithField("host")
	}
	joined := mastercfg.Joined{Host: request.Host, Key: wanted.hash, Addresses: request.Addresses, VTEPs: request.VTEPs,
		Tenants: record.Tenants, Token: record.ID, Joined: wanted.now}
	switch {
	case again && joined.IsAt(before):
		joined.Joined = before.Joined
	case again: // it has new addresses: nodes that have joined meanwhile have precedence
	default:
		record.Used++
		if err := ledger.Write(tx, mastercfg.JoinTokenPrefix+record.ID, record); err != nil {
			return err
		}
	}
	return wanted.admit(tx, at, kind, joined, request.Established)
}

// renew issues a new certificate for a node that has joined, if the request uses its key.
func (m *Members) renew(r *http.Request, request *mastercfg.RenewRequest) (rest.Reply, error) {
	wanted, err := m.asked(request.CSR)
	if err != nil {
		return rest.Reply{}, err
	}
	rev, err := m.term.Ledger.Update(r.Context(), func(tx *ledger.Tx) error {
		at := recordKey(string(identity.Node), request.Host)
		joined, err := ledger.Read[mastercfg.Joined](tx, at)
		switch {
		case err != nil && !fault.Is(err, fault.NotFound):
			return err
		case joined.Key != wanted.hash: // unauthenticated clients must not learn which nodes exist
			return finalRefusal("node %s has not joined with the key of this request, or was removed or rekeyed since: it needs a join token", request.Host)
		}
		auth.CallerFrom(r.Context()).SetProvenSubject(fmt.Sprintf("node/%s with key %s", request.Host, wanted.hash))
		if wanted.now.After(joined.Expires.Add(renewable)) {
			return fault.New(fault.Denied, "node %s: its certificate expired at %s, more than %d days ago: netctl node rekey %s, and a join token",
				request.Host, joined.Expires.UTC().Format(time.RFC3339), int(renewable.Hours()/24), request.Host)
		}
		wanted.answer.Elsewhere = !mastercfg.Joined{Addresses: request.Addresses, VTEPs: request.VTEPs}.IsAt(joined)
		return wanted.sign(tx, at, identity.Node, joined)
	})
	return rest.Reply{Body: wanted.answer, Revision: rev}, err
}

// orMissing returns missing if err is fault.NotFound, and otherwise err.
func orMissing(err, missing error) error {
	if fault.Is(err, fault.NotFound) {
		return missing
	}
	return err
}

// recordKey returns the key of the record of a node or netmaster.
func recordKey(role, host string) string {
	if identity.Kind(role) == identity.Master {
		return mastercfg.MasterPrefix + host
	}
	return mastercfg.NodePrefix + host
}

// certificate is a requested certificate.
type certificate struct {
	by     pki.Authorities
	key    *ecdsa.PublicKey
	hash   string // of the key
	now    time.Time
	life   time.Duration    // of the certificate
	keys   *keyring.Keyring // keys that a netmaster receives
	answer mastercfg.JoinResponse
}

// asked parses a request for a certificate.
func (m *Members) asked(csr []byte) (*certificate, error) {
	by, err := m.Authorities()
	if err != nil {
		return nil, err
	}
	c := &certificate{by: by, now: m.term.Now().UTC(), life: m.config.LeafLife, keys: m.term.Keyring}
	if c.key, err = pki.ReadRequest(csr); err != nil {
		return nil, err
	}
	c.hash, err = pki.PublicKeyHash(c.key)
	return c, err
}

// CertifyUser issues a certificate of a user for the key of a request, and returns the CAs. It returns
// fault.Mode if there are no CAs.
func (m *Members) CertifyUser(name string, csr []byte) (signed *x509.Certificate, by pki.Authorities, err error) {
	wanted, err := m.asked(csr)
	if err != nil {
		return nil, nil, err
	}
	signed, err = wanted.by[pki.Client].Sign(pki.Leaf{
		Who: identity.Identity{Kind: identity.User, Name: name}, Use: x509.ExtKeyUsageClientAuth, Key: wanted.key, Life: wanted.life}, wanted.now)
	return signed, wanted.by, err
}

// admit signs the certificate of a joining node or netmaster, and
// hands the CAs over to a netmaster, which may be established.
func (c *certificate) admit(tx *ledger.Tx, at string, kind identity.Kind, joined mastercfg.Joined, established bool) (err error) {
	if kind == identity.Node {
		nodes := nodesOf(tx)
		if err := cmp.Or(ownTunnelEnds(nodes, joined), ownLeases(nodes, joined)); err != nil {
			return err
		}
		master.NodeReturned(tx, joined.Host)
	}
	if kind == identity.Master {
		if err = forgetRemoval(tx, joined.Host, c.hash, established); err != nil {
			return err
		}
		if c.answer.Files, err = handoverFiles(c.by, c.keys); err != nil {
			return err
		}
	}
	return c.sign(tx, at, kind, joined)
}

// nodesOf returns the nodes that have joined. They are decoded once and not for each join: with one token
// hundreds may join in a second, and all other plans wait for these.
func nodesOf(tx *ledger.Tx) (all []*mastercfg.Joined) {
	tx.Range(mastercfg.NodePrefix, func(key string, _ []byte) bool {
		if node, err := ledger.ReadShared[mastercfg.Joined](tx, key); err == nil { // a damaged record must not block others
			all = append(all, node)
		}
		return true
	})
	return all
}

// ownTunnelEnds refuses a node with the tunnel address of another
// one: packets for the pods of either would reach only one of them.
func ownTunnelEnds(nodes []*mastercfg.Joined, joins mastercfg.Joined) error {
	own := map[netip.Addr]bool{}
	for _, text := range joins.VTEPs {
		if addr, err := netip.ParseAddr(text); err == nil {
			own[addr.Unmap()] = true
		}
	}
	for _, other := range nodes {
		for _, text := range other.VTEPs {
			if addr, err := netip.ParseAddr(text); err == nil && other.Host != joins.Host && own[addr.Unmap()] {
				return fault.New(fault.Conflict, "node %s: its tunnel end %s is that of node %s, which has joined before: give %s another --vtep-ip, or, if %s is gone for good, netctl node rm %s",
					joins.Host, addr, other.Host, joins.Host, other.Host, other.Host).WithField("vteps")
			}
		}
	}
	return nil
}

// ownLeases refuses a node whose name has the same lease ids as another one: either could end the registrations
// of the other. By chance this happens once for billions of pairs of names.
func ownLeases(nodes []*mastercfg.Joined, joins mastercfg.Joined) error {
	for _, other := range nodes {
		if other.Host != joins.Host && mastercfg.LeasesOf(other.Host) == mastercfg.LeasesOf(joins.Host) {
			return fault.New(fault.Conflict, "node %s: the leases of that name are those of node %s, which has joined before: give %s another --host",
				joins.Host, other.Host, joins.Host).WithField("host")
		}
	}
	return nil
}

// sign issues the certificate and writes the record with its expiry.
func (c *certificate) sign(tx *ledger.Tx, at string, kind identity.Kind, joined mastercfg.Joined) error {
	leaf := pki.Leaf{Who: identity.Identity{Kind: kind, Name: joined.Host}, Use: x509.ExtKeyUsageClientAuth, Key: c.key, Life: c.life}
	if kind == identity.Node {
		// A node serves with a certificate of the client CA: no client of a netmaster accepts a node as a
		// netmaster, whatever addresses it claims.
		leaf.Serves, leaf.Names = true, []string{joined.Host}
		for _, text := range joined.Addresses {
			if addr, err := netip.ParseAddr(text); err == nil {
				leaf.Addresses = append(leaf.Addresses, addr)
			}
		}
		joined.Knows = nil
		for _, known := range c.by[pki.API].Bundle() {
			joined.Knows = append(joined.Knows, pki.KeyHash(known))
		}
	}
	signed, err := c.by[pki.Client].Sign(leaf, c.now)
	if err != nil {
		return err
	}
	joined.Expires = signed.NotAfter
	c.answer.Cluster = c.by.Cluster()
	c.answer.Certificate = string(pki.EncodeCertificates(signed))
	c.answer.Authorities = string(pki.EncodeCertificates(c.by[pki.API].Bundle()...))
	c.answer.Clients = string(pki.EncodeCertificates(c.by[pki.Client].Bundle()...))
	return ledger.Write(tx, at, joined)
}
