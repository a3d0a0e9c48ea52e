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

// Prefixes of joined nodes and netmasters, and of join tokens.
const (
	NodePrefix      = AccessRoot + "nodes/"
	MasterPrefix    = AccessRoot + "masters/"
	JoinTokenPrefix = AccessRoot + "joinTokens/"
	TakenKeyPrefix  = AccessRoot + "takenKeys/" // by hash

	RemovedMasterPrefix = AccessRoot + "removedMasters/"
)

// Joined is a node or a netmaster that has joined the cluster: its name is bound to its key.
type Joined struct {
	Host      string    `json:"host"`
	Key       string    `json:"key"`       // hash of its public key; empty: the next one to join may have the name
	Addresses []string  `json:"addresses"` // as it reported them
	VTEPs     []string  `json:"vteps,omitempty"`
	Tenants   []string  `json:"tenants,omitempty"` // that it may serve; empty: all; see NoTenant
	Token     string    `json:"token"`             // id of the token that it joined with
	Joined    time.Time `json:"joined"`
	Expires   time.Time `json:"expires"` // end of the last certificate

	Knows    []string `json:"knows,omitempty"`    // of a node: pins of the CAs that it got with its last certificate
	MustJoin bool     `json:"mustJoin,omitempty"` // it cannot renew the certificate; in answers only
}

// NoTenant replaces the last tenant of a list when it is deleted, as an empty list means all. No tenant has
// such a name, and it is shown to users as it is.
const NoTenant = "(none)"

// WithoutTenant returns a list of tenants without a deleted one: the next tenant of that name is not
// the same. It is never empty.
func WithoutTenant(tenants []string, deleted string) []string {
	left := slices.DeleteFunc(slices.Clone(tenants), func(one string) bool { return one == deleted })
	if len(left) == 0 {
		return []string{NoTenant}
	}
	return left
}

// Serves reports whether a node may serve a tenant.
func (j *Joined) Serves(tenant string) bool {
	return len(j.Tenants) == 0 || slices.Contains(j.Tenants, tenant)
}

// IsAt reports whether the addresses and tunnel ends of a record are all among those of another one.
func (j Joined) IsAt(other Joined) bool {
	within := func(some, all []string) bool {
		return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(all, one) })
	}
	return within(j.Addresses, other.Addresses) && within(j.VTEPs, other.VTEPs)
}

// LeasesOf returns the first of a node's lease numbers: its upper half differs from that of any other joined
// node. The node may renew and end all leases with this upper half.
func LeasesOf(host string) int64 {
	sum := sha256.Sum256([]byte("lease of node " + host))
	return int64(binary.BigEndian.Uint32(sum[:])&0x7fffffff) << 32
}

// VouchedToken is stored in place of a token's id if the orchestrator has vouched for the one that joins.
const VouchedToken = "vouched"

// TakenKey is the key of a node that was removed or rekeyed: none can join with it any more.
type TakenKey struct {
	Host  string    `json:"host"`
	Taken time.Time `json:"taken"`
}

// RemovedMaster is a netmaster that was removed, until one joins under its name: no certificate of that name is
// valid. The key of such a certificate identifies nothing, as netmasters sign their own; the key with which it joins
// is another one.
type RemovedMaster struct {
	Host      string    `json:"host"`
	Key       string    `json:"key,omitempty"`       // hash of the key it had joined with, if any: it cannot join with that again
	Addresses []string  `json:"addresses,omitempty"` // that it had joined with
	Removed   time.Time `json:"removed"`
}

// JoinToken lets nodes or netmasters join. It does not contain its secret.
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

// Paths for joining.
const (
	JoinPath       = "/api/v1/join"
	RenewPath      = "/api/v1/renew"
	AuthorityPath  = "/api/v1/ca"
	JoinTokensPath = "/api/v1/joinTokens"
	NodesPath      = "/api/v1/nodes"
	MastersPath    = "/api/v1/masters"
)

// JoinAudience is the audience of the Kubernetes service account tokens with which pods join.
const JoinAudience = "contiv"

// JoinRequest asks to become a node or a netmaster of the cluster.
type JoinRequest struct {
	Token     string   `json:"token"`
	Host      string   `json:"host"`
	CSR       []byte   `json:"csr"` // a certificate request for its own key, DER
	Addresses []string `json:"addresses"`
	VTEPs     []string `json:"vteps"`

	Established bool `json:"established,omitempty"` // a netmaster that has the CAs of the cluster, perhaps former ones
}

// RenewRequest asks for a new certificate for the key that has joined.
type RenewRequest struct {
	Host string `json:"host"`
	CSR  []byte `json:"csr"`
	// Addresses and VTEPs are those at which the node is to be registered.
	Addresses []string `json:"addresses,omitempty"`
	VTEPs     []string `json:"vteps,omitempty"`
}

// JoinResponse is the answer to both requests.
type JoinResponse struct {
	Cluster     string `json:"cluster"`
	Certificate string `json:"certificate"` // PEM, presented to netmasters
	Authorities string `json:"authorities"` // PEM, CAs of netmasters' own certificates
	Clients     string `json:"clients"`     // PEM, CAs of the certificates of nodes, and of netmasters as clients
	// Files are the CAs with their keys, as pki.Authorities.Encode makes them, for a netmaster that joins.
	Files map[string]string `json:"files,omitempty"`
	// Elsewhere: the node has not joined with all addresses of its RenewRequest, and its registrations there are refused.
	Elsewhere bool `json:"elsewhere,omitempty"`
}

// Authority identifies a cluster: a client that has the pin can verify that these are its CAs.
type Authority struct {
	Cluster     string `json:"cluster"`
	Authorities string `json:"authorities"` // PEM
}

// KeyField is the field of a fault.Denied error if the key is not valid any more: the client may retry with another
// key.
const KeyField = "csr"

// Limits of a join request.
const (
	maxCSR       = 4 << 10 // bytes
	maxAddresses = 64
)

// Check returns an error for values that no host can have. Errors are fault.Invalid.
func (r *JoinRequest) Check() error {
	if err := checkJoiner(r.Host, r.CSR); err != nil {
		return err
	}
	return checkAddresses(r.Addresses, r.VTEPs)
}

func checkAddresses(own, vteps []string) error {
	for field, addresses := range map[string][]string{"addresses": own, "vteps": vteps} {
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

// Check returns an error for values that no host can have. Errors are fault.Invalid.
func (r *RenewRequest) Check() error {
	if err := checkJoiner(r.Host, r.CSR); err != nil {
		return err
	}
	return checkAddresses(r.Addresses, r.VTEPs)
}

func checkJoiner(host string, csr []byte) error {
	if !identity.ValidName(host) {
		return fault.New(fault.Invalid, "host %.60q: want letters, digits, and the signs . - _ @, at most 253", host).WithField("host")
	}
	return CheckCSR(csr)
}

// CheckCSR checks only the length of a certificate request.
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

// Check accepts everything: the values of a token are checked with its lifetime.
func (r *NewJoinToken) Check() error { return nil }

// ShownJoinToken is the answer, and the only time that the token is shown.
type ShownJoinToken struct {
	Token  string    `json:"token"`
	Record JoinToken `json:"record"`
}
