package daemon

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// tokenFile returns a file with a new token for a role, of the netmaster with a socket.
func tokenFile(t *testing.T, socket, role string) string {
	t.Helper()
	code, answer := exchange(t, overSocket(t, socket), "POST", "http://localhost"+mastercfg.JoinTokensPath, `{"role":"`+role+`"}`)
	var shown mastercfg.ShownJoinToken
	if err := json.Unmarshal([]byte(answer), &shown); err != nil || code != http.StatusOK {
		t.Fatalf("token: %d %s, %v", code, answer, err)
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(shown.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// newcomer runs a netmaster without CAs, which has to join with a token.
func newcomer(t *testing.T, name, token string) *node {
	t.Helper()
	return run(t, func(c *Config) {
		c.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Secure: true, Name: name, TokenFile: token}
	})
}

// A netmaster joins through a follower, leads with its cluster's CAs when the netmaster that sent them is gone,
// and does so again after a restart without the token.
func TestANetmasterThatJoinsIsGivenTheAuthorities(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	token := tokenFile(t, cfg.Socket, "master")
	second := newcomer(t, "m2", token)
	testkit.Eventually(t, 20*time.Second, "m2 has the authorities", second.daemon.certificates.hasAuthorities)
	third := newcomer(t, "m3", token)
	testkit.Eventually(t, 20*time.Second, "m3 has the authorities", third.daemon.certificates.hasAuthorities)
	given, err := pki.Load(second.daemon.cfg.Security.Dir)
	if err != nil {
		t.Fatal(err)
	}
	own, err := pki.Load(cfg.Dir)
	if err != nil || given.Hash() != own.Hash() {
		t.Errorf("they are others: %v", err)
	}
	if state := first.daemon.keyring.State(); state == "" || second.daemon.keyring.State() != state || third.daemon.keyring.State() != state {
		t.Errorf("keyrings %q, %q, %q", state, second.daemon.keyring.State(), third.daemon.keyring.State())
	}
	third.shut()
	first.shut()
	leader(t, second)
	client := clientOf(t, []*x509.Certificate{own[pki.API].Certificate})
	if code, answer := exchange(t, client, "GET", "https://"+second.addr+mastercfg.MastersPath, ""); code != http.StatusOK || !strings.Contains(answer, `"m2"`) || !strings.Contains(answer, `"m3"`) {
		t.Errorf("netmasters: %d %s", code, answer)
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	again := run(t, func(c *Config) { c.Security = second.daemon.cfg.Security })
	if !again.daemon.certificates.hasAuthorities() || again.daemon.toJoin.Load() {
		t.Error("after a restart it is to join anew")
	}
}

// Of several netmasters with verified tokens one founds a cluster, and the others get its CAs: no join token is
// created, and all are started alike.
func TestNetmastersThatAreVouchedForFoundAClusterTogether(t *testing.T) {
	storetest.Open(t)
	var nodes []*node
	var founder atomic.Pointer[node]
	for _, name := range []string{"m1", "m2", "m3"} {
		nodes = append(nodes, run(t, func(c *Config) {
			c.Security = Security{Dir: filepath.Join(t.TempDir(), "pki"), Founding: mastercfg.SecurityEnforced, Name: name}
			c.Security.Vouched = func(context.Context) (string, *x509.CertPool, error) {
				first := founder.Load()
				if first == nil {
					return "", nil, fault.New(fault.Unavailable, "nobody has written them yet")
				}
				pool, err := pki.Pool(pki.EncodeCertificates(first.daemon.certificates.authorities()[pki.API].Bundle()...))
				return "token-of-" + name, pool, err
			}
			c.API.Vouch = func(_ context.Context, token string) (identity.Identity, error) {
				return identity.Identity{Kind: identity.Master, Name: strings.TrimPrefix(token, "token-of-")}, nil
			}
		}))
	}
	first, others := leader(t, nodes...)
	founder.Store(first)
	var cluster string
	for _, n := range nodes {
		testkit.Eventually(t, 30*time.Second, "each has the authorities", n.daemon.certificates.hasAuthorities)
		if own := n.daemon.certificates.authorities().Cluster(); cluster == "" {
			cluster = own
		} else if own != cluster {
			t.Errorf("authorities of %s and of %s", cluster, own)
		}
	}
	first.shut()
	leader(t, others...)
}

// A netmaster that has to join, but cannot, does not lead, even if there is no leader.
func TestANetmasterThatIsToJoinDoesNotLead(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	second := newcomer(t, "m2", tokenFile(t, cfg.Socket, "node"))
	first.shut()
	if second.daemon.mayLead(t.Context()) || second.leads() || second.daemon.certificates.hasAuthorities() {
		t.Error("it leads")
	}
	if err := second.daemon.tryJoin(t.Context()); err == nil {
		t.Error("it has joined")
	}
}

// A netmaster without CAs and without a token leaves leading to one that has them: joined nodes could not verify
// it. If no netmaster has them it leads, until one registers.
func TestANetmasterWithoutAuthoritiesLeavesLeadingToOneWithThem(t *testing.T) {
	storetest.Open(t)
	first, cfg := secured(t)
	without := run(t)
	first.shut()
	leader(t, without)
	cfg.Socket = ""
	first = run(t, func(c *Config) { c.Security = cfg })
	testkit.Eventually(t, 30*time.Second, "the one with the authorities leads", func() bool { return first.leads() && !without.leads() })
}
