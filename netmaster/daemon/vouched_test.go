package daemon

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/retry"
)

// vouching stands for a Kubernetes that vouches for netmasters, and has the leader's published CAs.
type vouching struct{ published atomic.Pointer[string] }

// start starts the netmaster of a seat in a pod.
func (v *vouching) start(t *testing.T, s *seat) *node {
	s.security.Vouched = func(context.Context) (string, *x509.CertPool, error) {
		known := v.published.Load()
		if known == nil {
			return "", nil, fault.New(fault.NotFound, "nobody has written them yet")
		}
		pool, err := pki.Pool([]byte(*known))
		return "token-of-" + s.member.Name, pool, err
	}
	n := run(t, s.configure, func(c *Config) {
		c.API.Vouch = func(_ context.Context, token string) (identity.Identity, error) {
			return identity.Identity{Kind: identity.Master, Name: strings.TrimPrefix(token, "token-of-")}, nil
		}
		c.Follow = func(ctx context.Context, _ *ledger.Ledger, model *api.API, _ *logrus.Entry) error {
			for ; ctx.Err() == nil; retry.Pause(ctx, 50*time.Millisecond) {
				if known := model.KnownBy(); known != "" {
					v.published.Store(&known)
				}
			}
			return nil
		}
	})
	t.Cleanup(func() { endSomehow(n) })
	return n
}

// Netmasters in pods are started alike, at the same time, and form a store with TLS together. One with a newly set
// up machine gets the keys again, and joins the store once its former member was removed.
func TestLongNetmastersThatAreVouchedForFoundAStoreTogether(t *testing.T) {
	testkit.TakesLong(t)
	v, all, nodes := &vouching{}, seats(t, 3), make([]*node, 3)
	for i, s := range slices.Backward(all) { // the founder last
		nodes[i] = v.start(t, s)
	}
	haveVotes(t, nodes)
	netmastersOnly(t, all, nodes[0])

	lost := all[2]
	nodes[2].shut()
	for _, dir := range []string{lost.member.Dir, lost.security.Dir} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	nodes[2] = v.start(t, lost)
	etcd, err := nodes[0].daemon.db.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, "the member of before is removed", func() bool {
		list, err := etcd.MemberList(t.Context())
		if err != nil {
			return false
		}
		for _, m := range list.Members {
			if m.Name == lost.member.Name {
				_, err = etcd.MemberRemove(t.Context(), m.ID)
			}
		}
		return err == nil
	})
	haveVotes(t, nodes)
	netmastersOnly(t, all, nodes[0])
}

// All netmasters have lost their data, but what the last leader has published remains: no netmaster founds another
// cluster in place of theirs, the error has the reason and the remedy, and an operator who follows it gets a new
// cluster.
func TestAClusterIsFoundedInPlaceOfALostOneByItsOperatorOnly(t *testing.T) {
	t.Run("of several", func(t *testing.T) { foundedInPlace(t, seats(t, 2)[0]) })
	t.Run("of one", func(t *testing.T) { foundedInPlace(t, seats(t, 1)[0]) }) // which comes onto a node without the data
}

func foundedInPlace(t *testing.T, first *seat) {
	lost, err := pki.NewCluster(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	outlived := string(pki.EncodeCertificates(lost[pki.API].Bundle()...))
	v := &vouching{}
	v.published.Store(&outlived)
	first.security.Anew = "forget it"
	n := v.start(t, first)
	over := overSocket(t, first.security.Socket)
	for _, path := range []string{"/readyz", "/api/v1/tenants/"} {
		testkit.Eventually(t, 20*time.Second, path+" says what to do", func() bool {
			resp, err := over.Get("http://localhost" + path)
			if err != nil {
				return false
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			return err == nil && resp.StatusCode >= http.StatusInternalServerError && strings.Contains(string(text), "none of them answers yet; if this one was moved here from another node") &&
				strings.Contains(string(text), "forget it")
		})
	}
	if n.daemon.certificates.hasAuthorities() {
		t.Error("it has founded a cluster")
	}
	v.published.Store(nil)
	leader(t, n)
}

// plainMembers starts a closed cluster whose members of the store are plain.
func plainMembers(t *testing.T, v *vouching, all []*seat) (nodes []*node) {
	peers := map[string]string{}
	for _, s := range all {
		peers[s.member.Name] = plain(s.member.PeerURL)
	}
	for _, s := range all {
		before := *s
		before.member.PeerURL, before.member.ClientURL, before.member.Peers = plain(s.member.PeerURL), plain(s.member.ClientURL), peers
		nodes = append(nodes, v.start(t, &before))
	}
	for _, n := range nodes {
		testkit.Eventually(t, time.Minute, "each has the authorities", n.daemon.certificates.hasAuthorities)
	}
	return nodes
}

// readyWith starts a netmaster again with its seat's present settings, and waits until it is ready.
func readyWith(t *testing.T, v *vouching, s *seat) *node {
	n := v.start(t, s)
	testkit.Eventually(t, time.Minute, s.member.Name+" is ready", func() bool {
		code, _, err := n.try("GET", "/readyz", "")
		return err == nil && code == http.StatusOK
	})
	return n
}

// A member that is down while the other two get TLS learns their new URLs nevertheless, and gets TLS when it
// returns.
func TestLongAMemberThatWasAwayGetsTLSAfterTheOthers(t *testing.T) {
	testkit.TakesLong(t)
	v, all := &vouching{}, seats(t, 3)
	nodes := plainMembers(t, v, all)
	nodes[0].shut()
	for _, i := range []int{1, 2, 0} {
		if i != 0 {
			nodes[i].shut()
		}
		nodes[i] = readyWith(t, v, all[i])
	}
	haveVotes(t, nodes)
	netmastersOnly(t, all, nodes[0])
}

// A closed cluster with plain members of the store gets TLS there, too, when its netmasters are started with https
// URLs, one after the other.
func TestLongMembersOfAClosedClusterGetTLS(t *testing.T) {
	testkit.TakesLong(t)
	v, all := &vouching{}, seats(t, 3)
	nodes := plainMembers(t, v, all)
	first, _ := leader(t, nodes...)
	if err := makeTenant(overSocket(t, first.daemon.cfg.Security.Socket), "blue"); err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		nodes[i].shut()
		nodes[i] = readyWith(t, v, s)
	}
	haveVotes(t, nodes)
	for _, s := range all { // the others learn its other URL
		testkit.Eventually(t, time.Minute, s.member.Name+" is known by its new URL", func() bool {
			urls, err := nodes[0].daemon.db.MemberURLs(t.Context())
			return err == nil && slices.Contains(urls, s.member.PeerURL) && slices.Contains(urls, s.member.ClientURL)
		})
	}
	netmastersOnly(t, all, nodes[0])
	if _, err := nodes[2].daemon.db.Get(t.Context(), mastercfg.ModelRoot+"tenant/blue"); err != nil {
		t.Error(err)
	}
}
