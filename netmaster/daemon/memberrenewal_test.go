package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/identity"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/retry"
)

// storeCert returns a certificate of a netmaster by the CA of the store.
func storeCert(t *testing.T, by *pki.Authority) tls.Certificate {
	t.Helper()
	return certificate(t, by, identity.Identity{Kind: identity.Master, Name: "x"}, x509.ExtKeyUsageClientAuth, time.Now())
}

// shownAt returns the serial number of the certificate that a port of a member presents.
func shownAt(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// believed returns the names with certificates that both ports of a member accept.
func believed(s *seat, roots *x509.CertPool, whose map[string]tls.Certificate) (names []string) {
	for name, own := range whose {
		if knock(s.member.ClientURL, roots, own) == nil && knock(s.member.PeerURL, roots, own) == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// A member presents replaced certificates without a restart. It accepts certificates of another CA from the step
// that adds it to the one that removes the old one, and keeps its data.
func TestCertificatesOfAStoreAreReplacedWithoutARestartOfItsNetmaster(t *testing.T) {
	s := seats(t, 1)[0]
	n := s.start(t)
	leader(t, n)
	member, ports := n.daemon.member.running(), []string{s.member.ClientURL, s.member.PeerURL}
	var before []string
	for _, at := range ports {
		before = append(before, shownAt(t, at))
	}
	if err := n.daemon.certificates.renew(n.daemon.certificates.current.Load()); err != nil {
		t.Fatal(err)
	}
	for i, at := range ports {
		if shownAt(t, at) == before[i] {
			t.Errorf("%s shows the former certificate", at)
		}
	}
	if n.daemon.member.running() != member {
		t.Error("the member was started again for a certificate")
	}

	old := s.authorities(t)
	whose := map[string]tls.Certificate{"old": storeCert(t, old[pki.Store])}
	roots := x509.NewCertPool()
	roots.AddCert(old[pki.Store].Certificate)
	started := map[*embedded.Server]bool{member: true}
	for _, step := range []struct {
		pki.Step
		believes []string
	}{{pki.Add, []string{"old"}}, {pki.Switch, []string{"new", "old"}}, {pki.Drop, []string{"new"}}} {
		rotate(t, n, step.Step)
		now := n.daemon.certificates.authorities()
		if step.Step == pki.Switch {
			whose["new"] = storeCert(t, now[pki.Store])
			roots.AddCert(now[pki.Store].Certificate)
		}
		testkit.Eventually(t, 30*time.Second, "the member knows step "+string(step.Step), func() bool {
			return n.daemon.member.registeredAuthorities() == now.Hash() && n.daemon.db.Ping(t.Context()) == nil
		})
		started[n.daemon.member.running()] = true
		if is := believed(s, roots, whose); !slices.Equal(is, step.believes) {
			t.Errorf("after %s it believes %q, want %q", step.Step, is, step.believes)
		}
	}
	if len(started) != 3 {
		t.Errorf("the member was started %d times, want 3: at first, and for those that are believed after the first and the last step", len(started))
	}
	if !n.leads() {
		t.Error("the netmaster does not lead any more")
	}
}

// writers is the number of writers through each netmaster, so that there is always a commit in progress.
const writers = 3

// writing creates tenants through each of several netmasters, one after the other, until end is called. None may
// be refused.
func writing(t *testing.T, nodes ...*node) (end func()) {
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range writers * len(nodes) {
		n := nodes[i%len(nodes)]
		client := overSocket(t, n.daemon.cfg.Security.Socket)
		all.Go(func() {
			made, longest := 0, time.Duration(0)
			for ; ctx.Err() == nil; retry.Pause(ctx, 5*time.Millisecond) {
				began := time.Now()
				if err := makeTenant(client, fmt.Sprintf("w%d-%d", i+1, made)); err != nil {
					t.Error(err)
				}
				made, longest = made+1, max(longest, time.Since(began))
			}
			t.Logf("%d tenants through %s, the longest took %s", made, n.daemon.cfg.Security.Name, longest)
		})
	}
	return func() { stop(); all.Wait() }
}

func makeTenant(client *http.Client, name string) error {
	resp, err := client.Post("http://localhost/api/v1/tenants/"+name+"/", "application/json", strings.NewReader(`{"tenantName":"`+name+`"}`))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || err != nil {
		return fmt.Errorf("tenant %s: %s %s, %v", name, resp.Status, answer, err)
	}
	return nil
}

// A write that arrives while the leader's member restarts waits for that.
func TestWritesWaitWhileTheMemberOfTheLeaderIsStartedAgain(t *testing.T) {
	s := seats(t, 1)[0]
	n := s.start(t)
	leader(t, n)
	end := writing(t, n)
	before := n.daemon.member.running()
	rotate(t, n, pki.Add)
	testkit.Eventually(t, 30*time.Second, "the member knows them", func() bool {
		return n.daemon.member.registeredAuthorities() == n.daemon.certificates.authorities().Hash()
	})
	end()
	if n.daemon.member.running() == before {
		t.Error("it was not started again")
	}
}

// The members of an open cluster's store get TLS: its netmasters are started with https URLs, one after the other,
// which changes nothing, and once they have CAs their members speak TLS, one after the other. Nothing is lost.
func TestLongMembersOfAnOpenClusterAreClosedOneAfterTheOther(t *testing.T) {
	testkit.TakesLong(t)
	all := seats(t, 3)
	peers := map[string]string{}
	for _, s := range all {
		peers[s.member.Name] = plain(s.member.PeerURL)
	}
	var nodes []*node
	for _, s := range all {
		before := *s
		before.security.Founding = mastercfg.SecurityOpen
		before.member.PeerURL, before.member.ClientURL, before.member.Peers = plain(s.member.PeerURL), plain(s.member.ClientURL), peers
		nodes = append(nodes, before.start(t))
	}
	first, _ := leader(t, nodes...)
	first.ok("POST", "/api/v1/tenants/blue/", `{"tenantName":"blue"}`)
	for i, s := range all {
		nodes[i].shut()
		nodes[i] = s.start(t)
		haveVotes(t, nodes)
		if err := knock(plain(s.member.PeerURL), nil); err != nil {
			t.Errorf("it is not as before: %v", err)
		}
	}
	first, _ = leader(t, nodes...)
	socket := first.daemon.cfg.Security.Socket
	if code, answer := exchange(t, overSocket(t, socket), "POST", "http://localhost"+mastercfg.SecurityPath+"/init", ""); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	token := tokenFile(t, socket, "master")
	for i, s := range all {
		if nodes[i] != first {
			nodes[i].shut()
			s.security.TokenFile = token
			nodes[i] = s.start(t)
		}
		testkit.Eventually(t, time.Minute, s.member.Name+" speaks TLS", func() bool {
			return knock(plain(s.member.PeerURL), nil) != nil && nodes[i].daemon.member.registeredAuthorities() != "" && nodes[i].daemon.db.Ping(t.Context()) == nil
		})
	}
	netmastersOnly(t, all, nodes[0])
	nodes[1].shut() // it is restarted with its data on disk
	all[1].security.TokenFile = ""
	nodes[1] = all[1].start(t)
	haveVotes(t, nodes)
	if _, err := nodes[1].daemon.db.Get(t.Context(), mastercfg.ModelRoot+"tenant/blue"); err != nil {
		t.Error(err)
	}
}

// In a store of three, the CAs are replaced during writes through each member, and no write fails.
func TestLongNoWriteFailsWhileAStoreOfThreeGetsOtherAuthorities(t *testing.T) {
	testkit.TakesLong(t)
	_, nodes := threeSecure(t)
	end := writing(t, nodes...)
	for _, step := range []pki.Step{pki.Add, pki.Switch, pki.Drop} {
		first, _ := leader(t, nodes...)
		rotate(t, first, step)
	}
	for _, n := range nodes {
		testkit.Eventually(t, time.Minute, "all know the last step", func() bool {
			return n.daemon.member.registeredAuthorities() == nodes[0].daemon.certificates.authorities().Hash()
		})
	}
	end()
}

// In a store of three the CAs are replaced during writes; a netmaster that was away meanwhile is admitted again
// with a present token.
func TestLongAStoreOfThreeGetsOtherAuthorities(t *testing.T) {
	testkit.TakesLong(t)
	all, nodes := threeSecure(t)
	first, others := leader(t, nodes...)
	away := slices.Index(nodes, others[1])
	missing := func() string {
		names, err := spaceMember{first.daemon.member}.Missing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names, ", ")
	}
	testkit.Eventually(t, time.Minute, "no member misses another", func() bool { return missing() == "" })
	nodes[away].shut()
	if got := missing(); got != all[away].member.Name {
		t.Errorf("after %s has stopped, missing is %q", all[away].member.Name, got)
	}
	old := storeCert(t, all[0].authorities(t)[pki.Store])
	for _, step := range []pki.Step{pki.Add, pki.Switch, pki.Drop} {
		rotate(t, first, step)
		testkit.Eventually(t, time.Minute, "all know step "+string(step), func() bool {
			now, _ := leader(t, first, others[0])
			hash := now.daemon.certificates.authorities().Hash()
			return first.daemon.member.registeredAuthorities() == hash && others[0].daemon.member.registeredAuthorities() == hash && first.daemon.db.Ping(t.Context()) == nil
		})
		first, _ = leader(t, first, others[0])
		if first == others[0] {
			others[0] = nodes[slices.IndexFunc(nodes, func(n *node) bool { return n != first && n != nodes[away] })]
		}
	}
	all[away].security.TokenFile = tokenFile(t, first.daemon.cfg.Security.Socket, "master")
	nodes[away] = all[away].start(t)
	haveVotes(t, nodes)
	roots := x509.NewCertPool()
	roots.AddCert(first.daemon.certificates.authorities()[pki.Store].Certificate)
	for _, s := range all {
		if is := believed(s, roots, map[string]tls.Certificate{"old": old, "new": storeCert(t, first.daemon.certificates.authorities()[pki.Store])}); !slices.Equal(is, []string{"new"}) {
			t.Errorf("%s believes %q", s.member.Name, is)
		}
	}
}
