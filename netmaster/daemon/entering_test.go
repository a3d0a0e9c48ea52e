package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// seat is the configuration of a netmaster with a member of a store with TLS, for each start.
type seat struct {
	dir, addr string
	member    embedded.Config
	security  Security
}

// seats returns those of several netmasters of one cluster; the first one founds it.
func seats(t *testing.T, count int) (all []*seat) {
	t.Helper()
	for i := range count {
		name, dir := fmt.Sprint("m", i+1), t.TempDir()
		all = append(all, &seat{dir: dir, addr: testkit.FreeAddress(),
			member: embedded.Config{Dir: filepath.Join(dir, "etcd"), Name: name, NoFsync: true, Log: testkit.Quiet(),
				ClientURL: "https://" + testkit.FreeAddress(), PeerURL: "https://" + testkit.FreeAddress()},
			security: Security{Dir: filepath.Join(dir, "pki"), Name: name, Founding: mastercfg.SecurityEnforced, Socket: filepath.Join(dir, "run", "netmaster.sock")}})
	}
	for i, s := range all {
		s.security.Founder = i == 0
		for j, other := range all {
			if i != j {
				s.security.Join = append(s.security.Join, other.addr)
			}
		}
	}
	return all
}

// configure sets the configuration of the netmaster of a seat.
func (s *seat) configure(c *Config) {
	member := s.member
	c.Listen, c.Control, c.Security, c.Embedded = s.addr, s.addr, s.security, &member
	c.Store, c.API.ClientRate = objdb.Config{Endpoints: []string{member.ClientURL}, Log: testkit.Quiet()}, rate.Inf
}

// start starts the netmaster. At the end of the test it may end in any way: the last of several has no majority.
func (s *seat) start(t *testing.T) *node {
	t.Helper()
	n := run(t, s.configure)
	t.Cleanup(func() { endSomehow(n) })
	return n
}

func endSomehow(n *node) {
	n.stop()
	if _, running := <-n.done; running {
		close(n.done)
	}
}

// threeSecure returns three netmasters that have founded a cluster and entered it.
func threeSecure(t *testing.T) ([]*seat, []*node) {
	t.Helper()
	all := seats(t, 3)
	nodes := []*node{all[0].start(t)}
	leader(t, nodes...)
	token := tokenFile(t, all[0].security.Socket, "master")
	for _, s := range all[1:] {
		s.security.TokenFile = token
		nodes = append(nodes, s.start(t))
	}
	haveVotes(t, nodes)
	return all, nodes
}

// haveVotes waits until the store serves each netmaster at its own member, and all members have votes.
func haveVotes(t *testing.T, nodes []*node) {
	t.Helper()
	for _, n := range nodes {
		testkit.Eventually(t, time.Minute, n.daemon.cfg.Security.Name+" has a member with a vote", func() bool { return n.daemon.db.Ping(t.Context()) == nil })
	}
}

// authorities returns the CAs of the cluster of a seat.
func (s *seat) authorities(t *testing.T) pki.Authorities {
	t.Helper()
	all, err := pki.Load(s.security.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// knock asks a port of a member for its version, with certificates.
func knock(at string, roots *x509.CertPool, own ...tls.Certificate) error {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: own}, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 10 * time.Second}
	resp, err := client.Get(at + "/version")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", resp.Status)
	}
	return nil
}

// One netmaster founds the store, the others enter it with a token.
func TestNetmastersFoundAStoreThatSpeaksTLSOnly(t *testing.T) {
	all, nodes := threeSecure(t)
	netmastersOnly(t, all, nodes[0])
}

// A restarted netmaster returns, and one that lacks something joins, or its error says what it lacks.
func TestLongNetmastersComeBackIntoAStore(t *testing.T) {
	testkit.TakesLong(t)
	all, nodes := threeSecure(t)

	// The founder is stopped and returns.
	nodes[0].shut()
	leader(t, nodes[1:]...)
	nodes[0] = all[0].start(t)
	haveVotes(t, nodes)

	// A netmaster with an empty disk and without a token does not found another cluster beside this one.
	bare := seats(t, 1)[0]
	bare.security.Join = []string{all[1].addr, all[2].addr}
	if err := attempt(t, bare); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "there is a cluster already") {
		t.Error(err)
	}
	if embedded.HasData(bare.member.Dir) || bare.member.Founds() {
		t.Error("it has founded another cluster")
	}

	// A netmaster killed after its member was added, but before it was started, enters at its next start.
	fourth := seats(t, 1)[0]
	fourth.member.Name, fourth.security.Name, fourth.security.Join = "m4", "m4", []string{all[0].addr, all[1].addr, all[2].addr} // one of them leads
	if err := all[0].authorities(t).Save(fourth.security.Dir); err != nil {
		t.Fatal(err)
	}
	first, _ := leader(t, nodes...)
	testkit.Eventually(t, time.Minute, "it is expected", func() bool { // not before the others have been connected for five seconds
		_, err := first.daemon.addMember(t.Context(), "m4", fourth.member.PeerURL)
		return err == nil
	})
	nodes = append(nodes, fourth.start(t))
	haveVotes(t, nodes)

	// A netmaster that has lost its data is not taken for another one.
	nodes[2].shut()
	if err := os.RemoveAll(filepath.Join(all[2].member.Dir, "member")); err != nil {
		t.Fatal(err)
	}
	if err := attempt(t, all[2]); err == nil || !strings.Contains(err.Error(), "etcdctl member remove") {
		t.Error(err)
	}
}

// netmastersOnly tries each port of each member with the credentials of other parties.
func netmastersOnly(t *testing.T, all []*seat, n *node) {
	t.Helper()
	by, now := all[0].authorities(t), time.Now()
	foreign, err := pki.NewCluster(now)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(by[pki.Store].Certificate)
	who := func(kind identity.Kind) identity.Identity { return identity.Identity{Kind: kind, Name: "x"} }
	for _, s := range all {
		for _, at := range []string{s.member.ClientURL, s.member.PeerURL} {
			for name, own := range map[string][]tls.Certificate{
				"nobody":              nil,
				"a node":              {certificate(t, by[pki.Client], who(identity.Node), x509.ExtKeyUsageClientAuth, now)},
				"a user":              {certificate(t, by[pki.Client], who(identity.User), x509.ExtKeyUsageClientAuth, now)},
				"a netmaster of REST": {certificate(t, by[pki.Client], who(identity.Master), x509.ExtKeyUsageClientAuth, now)},
				"a server of REST":    {certificate(t, by[pki.API], who(identity.Master), x509.ExtKeyUsageServerAuth, now)},
				"another cluster":     {certificate(t, foreign[pki.Store], who(identity.Master), x509.ExtKeyUsageClientAuth, now)},
				"a server only":       {certificate(t, by[pki.Store], who(identity.Master), x509.ExtKeyUsageServerAuth, now)},
			} {
				if err := knock(at, roots, own...); err == nil {
					t.Errorf("%s is let in at %s of %s", name, at, s.member.Name)
				}
			}
			if err := knock(strings.Replace(at, "https:", "http:", 1), roots); err == nil {
				t.Errorf("%s answers without TLS", at)
			}
			if err := knock(at, roots, certificate(t, by[pki.Store], who(identity.Master), x509.ExtKeyUsageClientAuth, now)); err != nil {
				t.Errorf("a netmaster is not let in at %s: %v", at, err)
			}
		}
	}
	members, err := n.daemon.db.MemberURLs(t.Context())
	if err != nil || len(members) != 6 {
		t.Errorf("%q, %v", members, err)
	}
	for _, m := range members {
		if u, err := url.Parse(m); err != nil || u.Scheme != "https" {
			t.Errorf("a member says that it listens at %s", m)
		}
	}
}

// A netmaster that is killed while it joins a cluster continues at its next start.
func TestANetmasterKilledWhileItFoundsTheStoreFoundsOn(t *testing.T) {
	for name, left := range map[string]func(*seat) error{
		"a note":                 func(s *seat) error { return s.member.Found() },
		"a note and authorities": func(s *seat) error { return foundedUpTo(s, false) },
		"all but a member":       func(s *seat) error { return foundedUpTo(s, true) },
	} {
		t.Run(name, func(t *testing.T) {
			s := seats(t, 3)[0]
			if err := left(s); err != nil {
				t.Fatal(err)
			}
			n := s.start(t)
			leader(t, n)
			haveVotes(t, []*node{n})
		})
	}
}

// Of netmasters started together without tokens the first one founds the cluster; the others report what they wait
// for.
func TestOfNetmastersWithoutTokensOneFoundsTheStore(t *testing.T) {
	second := seats(t, 2)[1]
	if err := attempt(t, second); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "--join-token-file") {
		t.Errorf("%v", err)
	}
	if second.member.Founds() || embedded.HasData(second.member.Dir) {
		t.Error("it has founded a cluster")
	}
}

// A netmaster that has to enter a cluster founds none, whatever it has lost or does not have yet.
func TestANetmasterWithAuthoritiesAndWithoutDataFoundsNothing(t *testing.T) {
	for name, c := range map[string]struct {
		others []string
		log    bool // killed before its member was sent anything
		says   string
	}{
		"knows nobody":             {nil, false, "knows no other netmaster"},
		"killed before it entered": {[]string{testkit.FreeAddress()}, true, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			s := seats(t, 1)[0]
			if err := foundedUpTo(s, true); err != nil {
				t.Fatal(err)
			}
			if err := os.RemoveAll(s.member.Dir); err != nil { // with the record that it founds
				t.Fatal(err)
			}
			s.security.Join = c.others
			if c.log {
				unborn(t, s.member.Dir)
			}
			if err := attempt(t, s); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if embedded.HasData(s.member.Dir) {
				t.Error("it has founded a cluster")
			}
		})
	}
}

// It must not ask for a token or for the directory that it has.
func TestADamagedKeyOfTheStoreIsNamedAndNotMissingAuthorities(t *testing.T) {
	for name, data := range map[string]bool{"founded": true, "not founded yet": false} {
		t.Run(name, func(t *testing.T) {
			s := seats(t, 1)[0]
			if err := foundedUpTo(s, true); err != nil {
				t.Fatal(err)
			}
			if data {
				n := s.start(t)
				leader(t, n)
				n.shut()
			}
			key := filepath.Join(s.security.Dir, storeKeyFile)
			if err := os.Truncate(key, 20); err != nil {
				t.Fatal(err)
			}
			err := attempt(t, s)
			if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "move this file away") {
				t.Errorf("%v", err)
			}
		})
	}
}

// unborn makes the log of a member that has got no entry and no vote.
func unborn(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := wal.Create(zap.NewNop(), filepath.Join(dir, "member", "wal"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// foundedUpTo makes the files of a founder that was killed before its member was started.
func foundedUpTo(s *seat, certificate bool) error {
	if err := s.member.Found(); err != nil {
		return err
	}
	all, err := pki.NewCluster(time.Now())
	if err != nil {
		return err
	}
	if err := all.Save(s.security.Dir); err != nil || !certificate {
		return err
	}
	s.security.Store = true
	_, err = newCertificates(s.security, testkit.Quiet())
	return err
}

// attempt has a netmaster try once to bring its member up.
func attempt(t *testing.T, s *seat) error {
	t.Helper()
	cfg := config(s.addr)
	s.configure(&cfg)
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.db.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.member.Start(ctx); err != nil || d.member.running() != nil {
		return err
	}
	return d.member.tryToEnter(ctx)
}

// Members with TLS require a cluster with authentication.
func TestAnOpenClusterIsNotFoundedWithTLS(t *testing.T) {
	s := seats(t, 1)[0]
	s.security.Founding = mastercfg.SecurityOpen
	if err := attempt(t, s); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "--insecure") {
		t.Errorf("%v", err)
	}
}
