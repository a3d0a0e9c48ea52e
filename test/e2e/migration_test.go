package e2e

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/pages"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// steps are the commands of docs/security.md that close a cluster that runs, by the titles of its steps.
type steps map[string]string

func stepsOfThePage(t *testing.T) steps {
	t.Helper()
	sections, err := pages.Commands("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	all := steps{}
	there := strings.NewReplacer("10.1.1.", "192.0.2.", "-o contiv ", "-o root ") // the nodes of the bed, whose netmasters are root's
	for _, section := range sections {
		all[section.Title] = there.Replace(section.Commands)
	}
	return all
}

// take returns the commands of a step, and removes it.
func (s story) take(all steps, title string) string {
	s.Helper()
	commands, found := all[title]
	if !found {
		s.Fatalf("the page has no step %q", title)
	}
	delete(all, title)
	return commands
}

// openServices are the settings of a node of an open cluster, whose netmasters embed a store with http URLs.
func openServices(bed *testbed.Bed, n *testbed.Node) map[string]string {
	var peers []string
	for _, peer := range bed.Nodes {
		peers = append(peers, peer.Name+"=http://"+peer.MgmtIP+":2380")
	}
	return map[string]string{
		"netmaster": `CONTIV_NETMASTER_MODE=cni
CONTIV_NETMASTER_NET_MODE=vxlan
CONTIV_NETMASTER_FORWARD_MODE=routing
CONTIV_NETMASTER_INSECURE=true
CONTIV_NETMASTER_INTERNAL_ADDRESS=` + n.MgmtIP + `:9999
CONTIV_NETMASTER_EMBEDDED_ETCD=/var/lib/contiv/etcd
CONTIV_NETMASTER_EMBEDDED_ETCD_NAME=` + n.Name + `
CONTIV_NETMASTER_EMBEDDED_ETCD_CLIENT_URL=http://` + n.MgmtIP + `:2379
CONTIV_NETMASTER_EMBEDDED_ETCD_PEERS=` + strings.Join(peers, ",") + `
`,
		"netplugin": `CONTIV_NETPLUGIN_MODE=cni
CONTIV_NETPLUGIN_NET_MODE=vxlan
CONTIV_NETPLUGIN_FORWARD_MODE=routing
CONTIV_NETPLUGIN_ETCD_ENDPOINTS=` + strings.Join(bed.EtcdEndpoints(), ",") + `
CONTIV_NETPLUGIN_HOST=` + n.Name + `
CONTIV_NETPLUGIN_CONTROL_IP=` + n.MgmtIP + `
CONTIV_NETPLUGIN_VTEP_IP=` + n.VTEPIP + `
`,
	}
}

// joinToken matches the tokens that a step prints.
var joinToken = regexp.MustCompile(`(?m)^CT1\.\S+$`)

// TestLongAClusterIsClosedWhileItRuns takes the steps of docs/security.md, "Closing a cluster that runs", with the
// commands of that page, on three nodes whose netmasters embed the store: all netmasters restart, the leader's,
// too, and the store gets https. All the while pods send each other a datagram each millisecond, and a client that
// knows neither tokens nor https creates and deletes tenants. No datagram is lost, and no call of the client fails
// before `enforce`; no call of an authorized user fails at all. Then the cluster is relaxed and enforced again.
func TestLongAClusterIsClosedWhileItRuns(t *testing.T) {
	testkit.TakesLong(t)
	page := stepsOfThePage(t)
	ctx, bed := newBareBedFor(t, 8*time.Minute, testbed.Config{Nodes: 3, First: true})
	s := story{t, ctx, bed}
	for _, daemon := range []string{"netmaster", "netplugin"} {
		for _, n := range bed.Nodes {
			if daemon == "netmaster" {
				s.hasServices(n, openServices(bed, n))
			}
			s.byHand(n, "systemctl start "+daemon, "")
		}
	}
	for _, n := range bed.Nodes {
		s.must(errors.Join(n.WaitReady(ctx), n.WaitWayOut(ctx), n.WaitAddresses(ctx)))
	}
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	here, there := s.pod(1, "a", "blue", "front", ""), s.pod(2, "b", "blue", "front", "")
	s.reachEachOther(shortly, here, there)

	flows := []flow{{name: "closing", from: here, to: there.IP}, {name: "closing-fresh", from: there, to: here.IP, fresh: true}}
	nothingLost := func(reports []streamReport) {
		t.Helper()
		for i, r := range reports {
			if r.Lost != 0 || r.Sent == 0 {
				t.Errorf("%s: lost %d of %d", flows[i].name, r.Lost, r.Sent)
			}
		}
	}
	old := s.caller(bed.Nodes[0], "http", nil, "", "loop")
	var leader *testbed.Node
	var user *caller
	oldIsServed := func() error { return old.served(masterURL(bed.Nodes[1], "")) }
	oldIsRefused := func() error {
		if err := oldIsServed(); err == nil || !strings.Contains(err.Error(), "https://") {
			return fmt.Errorf("the client is not told to use https: %v", err)
		}
		return nil
	}

	nothingLost(s.whileFlowing(flows, func() {
		each := func(commands, input string, nodes ...*testbed.Node) {
			t.Helper()
			for _, n := range nodes {
				s.byHand(n, commands, input)
			}
		}
		each(s.take(page, "1. Start this version"), "", bed.Nodes...)
		each(s.take(page, "2. Start the agents of this version"), "", bed.Nodes...)
		s.noneFailed("after the restarts", old)

		leader = s.leader()
		tokens := joinToken.FindAllString(s.byHand(leader, s.take(page, "3. The leader makes the authorities"), ""), -1)
		if len(tokens) != 2 {
			t.Fatalf("the step shows %d tokens", len(tokens))
		}
		others := slices.DeleteFunc(slices.Clone(bed.Nodes), func(n *testbed.Node) bool { return n == leader })
		each(s.take(page, "4. The other netmasters get them"), tokens[0], others...)
		s.noneFailed("when all netmasters have the authorities", old)

		joins := s.take(page, "5. The agents join")
		refused := func(why string) {
			t.Helper()
			if _, err := leader.Run(ctx, leader.Tool("netctl"), "security", "enforce"); err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("enforced, though %s: %v", why, err)
			}
		}
		each(joins, tokens[1], bed.Nodes[:2]...)
		refused("node " + bed.Nodes[2].Name)
		each(joins, tokens[1], bed.Nodes[2])
		s.noneFailed("when the agents have joined", old)
		s.soon(time.Minute, func() error {
			if out := s.byHand(leader, "netctl security status", ""); strings.Contains(out, "nothing") {
				return errors.New(out)
			}
			return nil
		})

		closes := s.take(page, "6. The members of the store get https")
		for _, n := range bed.Nodes {
			refused("http://" + n.MgmtIP + ":2379, http://" + n.MgmtIP + ":2380")
			each(closes, "", n)
			if err := memberServes(ctx, n); err == nil {
				t.Errorf("the member of %s is plain still", n.Name)
			}
		}
		s.noneFailed("when the store has https", old)

		report := s.byHand(leader, s.take(page, "7. Users"), "correct horse battery")
		if !strings.Contains(report, "nobody") {
			t.Errorf("the client is not in the report: %s", report)
		}
		authority := s.authorityOf(leader)
		user = s.caller(bed.Nodes[0], "https", authority, s.login(leader, authority, "ann", "correct horse battery"), "hers")
		s.goesOn(user)
		s.noneFailed("before enforce", old)
		s.byHand(leader, s.take(page, "8. Enforce"), "")
		s.soon(shortly, oldIsRefused)
		s.goesOn(user)
	}))
	nothingLost(s.whileFlowing(flows, func() {
		s.reachEachOther(shortly, here, s.pod(0, "c", "blue", "front", ""))
		relax := s.take(page, "9. Back to permissive")
		s.byHand(leader, relax, "")
		s.soon(shortly, oldIsServed)
		s.goesOn(user)
		s.byHand(leader, "netctl security enforce", "")
		s.soon(shortly, oldIsRefused)
		s.goesOn(user)
		s.noneFailed("enforced again", user)
		s.byHand(leader, relax, "") // for who cleans up
	}))
	if left := slices.Collect(maps.Keys(page)); len(left) > 0 {
		t.Errorf("steps of the page that were not taken: %q", left)
	}
	_, _, failed := old.soFar()
	t.Logf("%d calls of the client that knows no https failed, all after enforce", len(failed))
}
