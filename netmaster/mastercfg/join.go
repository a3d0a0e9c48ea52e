package mastercfg

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/utils/fault"
)

// Who has joined, and the tokens to do so.
const (
	NodePrefix      = AccessRoot + "nodes/"
	MasterPrefix    = AccessRoot + "masters/"
	JoinTokenPrefix = AccessRoot + "joinTokens/"
	TakenKeyPrefix  = AccessRoot + "takenKeys/" // by hash

	RemovedMasterPrefix = AccessRoot + "removedMasters/"
)

// Joined is a node or a netmaster that has joined the cluster: its name belongs to its key.
type Joined struct {
	Host      string    `json:"host"`
	Key       string    `json:"key"`       // hash of its public key; empty: the next to join may have the name
	Addresses []string  `json:"addresses"` // as it said
	VTEPs     []string  `json:"vteps,omitempty"`
	Tenants   []string  `json:"tenants,omitempty"` // that it may serve; empty: all; see NoTenant
	Token     string    `json:"token"`             // id of the token that it showed
	Joined    time.Time `json:"joined"`
	Expires   time.Time `json:"expires"` // end of the last certificate

	Knows    []string `json:"knows,omitempty"`    // of a node: pins of the authorities that it was told with that
	MustJoin bool     `json:"mustJoin,omitempty"` // it cannot renew the certificate; in answers only
}

// NoTenant stands in a list of tenants of which the last was deleted, as an empty one means all. No tenant has such a name,
// and people read it as it is.
const NoTenant = "(none)"

// WithoutTenant is a list of tenants, which names one that is deleted, without it: the next one of the name is another's. It is never
// empty.
func WithoutTenant(tenants []string, deleted string) []string {
	left := slices.DeleteFunc(slices.Clone(tenants), func(one string) bool { return one == deleted })
	if len(left) == 0 {
		return []string{NoTenant}
	}
	return left
}

// Serves tells whether a node may serve a tenant.
func (j *Joined) Serves(tenant string) bool {
	return len(j.Tenants) == 0 || slices.Contains(j.Tenants, tenant)
}

// IsAt tells whether a record has no addresses and tunnel ends but those of another one.
func (j Joined) IsAt(other Joined) bool {
	within := func(some, all []string) bool {
		return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
	}
	return within(j.Addresses, other.Addresses) && within(j.VTEPs, other.VTEPs)
}

// LeasesOf is how the numbers of the leases of a node begin: in their upper half, which is no other joined node's. What
// begins so is the node's to renew and to end.
func LeasesOf(host string) int64 {
	sum := sha256.Sum256([]byte("lease of node " + host))
	return int64(binary.BigEndian.Uint32(sum[:])&0x7fffffff) << 32
}

// VouchedToken stands in a record where the id of a token would, if the orchestrator has told who joins.
const VouchedToken = "vouched"

// TakenKey is the key of a node that was removed or rekeyed: nobody joins with it any more.
type TakenKey struct {
	Host  string    `json:"host"`
	Taken time.Time `json:"taken"`
}

// RemovedMaster is a netmaster that was removed, until one joins under its name: a certificate of that name is nobody's.
// The key of such a certificate tells nothing, as netmasters sign their own; that with which it joins is another one.
type RemovedMaster struct {
	Host      string    `json:"host"`
	Key       string    `json:"key,omitempty"`       // hash of the one it had joined with, if it had: it does not join with that again
	Addresses []string  `json:"addresses,omitempty"` // that it had joined with
	Removed   time.Time `json:"removed"`
}

// JoinToken is what lets nodes or netmasters join. Its secret is not in it.
type JoinToken struct {
	ID      string    `json:"id"`
	Role    string    `json:"role"`              // node or master
	Digest  string    `json:"digest,omitempty"`  // SHA-256 of the secret; not in answers
	Host    string    `json:"host"`              // pattern of the names that may join
	Tenants []string  `json:"tenants,omitempty"` // that the nodes may serve; empty: all; see NoTenant
	Uses    int       `json:"uses"`              // how many may join; 0: without limit
	Used    int       `json:"used"`              // how many have
	Creator string    `json:"creator"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Paths of joining.
const (
	JoinPath       = "/api/v1/join"
	RenewPath      = "/api/v1/renew"
	AuthorityPath  = "/api/v1/ca"
	JoinTokensPath = "/api/v1/joinTokens"
	NodesPath      = "/api/v1/nodes"
	MastersPath    = "/api/v1/masters"
)

// JoinAudience is what tokens of service accounts of Kubernetes are for with which pods join.
const JoinAudience = "contiv"

// JoinRequest asks to become a node or a netmaster of the cluster.
type JoinRequest struct {
	Token     string   `json:"token"`
	Host      string   `json:"host"`
	CSR       []byte   `json:"csr"` // a certificate request for the own key, DER
	Addresses []string `json:"addresses"`
	VTEPs     []string `json:"vteps"`

	Established bool `json:"established,omitempty"` // a netmaster that has the authorities of the cluster, perhaps former ones
}

// RenewRequest asks for another certificate for the key that has joined.
type RenewRequest struct {
	Host string `json:"host"`
	CSR  []byte `json:"csr"`
}

// JoinResponse is the answer to both.
type JoinResponse struct {
	Cluster     string `json:"cluster"`
	Certificate string `json:"certificate"` // PEM, to show to netmasters
	Authorities string `json:"authorities"` // PEM, that netmasters' own are signed by
	Clients     string `json:"clients"`     // PEM, that certificates of nodes and of netmasters as clients are signed by
	// Files are the authorities with their keys, as pki.Authorities.Encode makes them, for
	// a netmaster that joins.
	Files map[string]string `json:"files,omitempty"`
}

// Authority is how a cluster is known: whoever has its pin can tell that these are its.
type Authority struct {
	Cluster     string `json:"cluster"`
	Authorities string `json:"authorities"` // PEM
}

// KeyField is what a refusal as fault.Denied names if it is the key that counts no more: who asked
// may try with another one.
const KeyField = "csr"

// Limits of what who joins says.
const (
	maxCSR       = 4 << 10 // bytes
	maxAddresses = 64
)

// Check refuses what no host can say. Errors are fault.Invalid.
func (r *JoinRequest) Check() error {
	if err := checkJoiner(r.Host, r.CSR); err != nil {
		return err
	}
	for field, addresses := range map[string][]string{"addresses": r.Addresses, "vteps": r.VTEPs} {
		if len(addresses) > maxAddresses {
			return fault.New(fault.Invalid, "%s: %d of them, at most %d", field, len(addresses), maxAddresses).WithField(field)
		}
		for _, text := range addresses {
			if addr, err := netip.ParseAddr(text); err != nil || addr.Zone() != "" {
				return fault.New(fault.Invalid, "%s: %.60q is not an IP address", field, text).WithField(field)
			}
		}
	}
	return nil
}

// Check refuses what no host can say. Errors are fault.Invalid.
func (r *RenewRequest) Check() error { return checkJoiner(r.Host, r.CSR) }

func checkJoiner(host string, csr []byte) error {
	if !identity.ValidName(host) {
		return fault.New(fault.Invalid, "host %.60q: want letters, digits, and the signs . - _ @, at most 253", host).WithField("host")
	}
	return CheckCSR(csr)
}

// CheckCSR refuses a certificate request by its length alone.
func CheckCSR(csr []byte) error {
	if len(csr) == 0 || len(csr) > maxCSR {
		return fault.New(fault.Invalid, "csr: %d bytes, want 1 to %d", len(csr), maxCSR).WithField(KeyField)
	}
	return nil
}

// NewJoinToken asks for a join token.
type NewJoinToken struct {
	Role    string   `json:"role"`
	TTL     string   `json:"ttl"` // such as 24h
	Host    string   `json:"host"`
	Tenants []string `json:"tenants"`
	Uses    int      `json:"uses"`
}

// Check refuses nothing: what a token can be is checked with its life.
func (r *NewJoinToken) Check() error { return nil }

// ShownJoinToken is the answer: the only time that the token is shown.
type ShownJoinToken struct {
	Token  string    `json:"token"`
	Record JoinToken `json:"record"`
}
