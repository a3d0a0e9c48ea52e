package ovsd

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

func TestAPeerIsSolicitedWithItsFirstEndpointAndForgottenWithItsLast(t *testing.T) {
	a, b := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("198.51.100.2")
	at := func(vtep netip.Addr) pipeline.Object { return pipeline.Endpoint{ID: "x", VTEP: vtep} }
	known := newPeers()
	for _, step := range []struct {
		old, now  pipeline.Object
		solicited netip.Addr
		count     int
	}{
		{nil, at(a), a, 1},
		{nil, at(a), netip.Addr{}, 1},
		{at(a), at(b), b, 2},
		{at(a), nil, netip.Addr{}, 1},
		{at(b), at(b), netip.Addr{}, 1},
		{nil, pipeline.Rule{}, netip.Addr{}, 1},
		{nil, pipeline.Endpoint{Local: true, VTEP: a}, netip.Addr{}, 1},
		{nil, pipeline.Endpoint{Encap: pipeline.VLAN, VTEP: a}, netip.Addr{}, 1}, // behind a router, which this node may not reach
		{at(b), nil, netip.Addr{}, 0},
	} {
		known.replace(step.old, step.now)
		var solicited netip.Addr
		for _, peer := range known.take() {
			solicited = peer
		}
		if solicited != step.solicited || len(known.count) != step.count {
			t.Errorf("%v -> %v: solicited %v, know %v", step.old, step.now, solicited, known.count)
		}
	}
}

// linksWith returns the links of a namespace with d0, which is up with address 198.18.0.1/16, and what else a
// batch of ip(8) sets up.
func linksWith(t *testing.T, more string) (*links, func(args ...string) string) {
	t.Helper()
	testkit.NeedsMachine(t)
	name := fmt.Sprintf("contiv-peers-%d", os.Getpid())
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command("ip", args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("ip %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	run("", "netns", "add", name)
	t.Cleanup(func() { run("", "netns", "del", name) })
	run("link add d0 type veth peer name d1\naddress add 198.18.0.1/16 dev d0\nlink set d1 up\nlink set d0 up\n"+more, "-n", name, "-batch", "-")
	ns, err := netns.GetFromName(name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLinks(&ns, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.handle.Close(); ns.Close() })
	return l, func(args ...string) string { t.Helper(); return run("", append([]string{"-n", name}, args...)...) }
}

// Permanent neighbour entries of a peer, or of the router to it, are not solicited, and remain.
func TestSolicitingLeavesWhatIsWrittenDownForGood(t *testing.T) {
	l, ip := linksWith(t, "neighbour add 198.18.0.2 lladdr 02:00:00:00:00:02 dev d0 nud permanent\nneighbour add 198.18.0.3 lladdr 02:00:00:00:00:03 dev d0 nud reachable\n")
	if err := l.solicit([]netip.Addr{netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("198.18.0.3"), netip.MustParseAddr("198.18.0.4")}); err != nil {
		t.Fatal(err)
	}
	got := ip("neighbour", "show", "dev", "d0")
	for _, want := range []string{"198.18.0.2 lladdr 02:00:00:00:00:02 PERMANENT", "198.18.0.3 lladdr 02:00:00:00:00:03 PROBE", "198.18.0.4 INCOMPLETE"} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("%s: want %s", got, want)
		}
	}
}

// The host's neighbours are read once for all peers, not for each: with thousands of both, that was the driver's
// main work in an audit.
func TestSolicitingManyPeersReadsTheNeighboursOnce(t *testing.T) {
	const neighbours, peers = 3000, 300
	var setUp strings.Builder
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, byte(1 + i>>8), byte(i)}) }
	for i := range neighbours {
		fmt.Fprintf(&setUp, "neighbour add %s lladdr 02:00:00:00:%02x:%02x dev d0 nud permanent\n", at(i), i>>8, i&255)
	}
	l, _ := linksWith(t, setUp.String())
	var all []netip.Addr
	for i := range peers {
		all = append(all, at(neighbours+i))
	}
	solicit := func(list []netip.Addr) func() {
		return func() {
			if err := l.solicit(list); err != nil {
				t.Error(err)
			}
		}
	}
	if took := testkit.Least(t, 3, solicit(all[:1]), solicit(all)); took[1] > peers/10*took[0] {
		t.Errorf("soliciting a peer among %d neighbours takes %v, and %d peers %v", neighbours, took[0], peers, took[1])
	}
}
