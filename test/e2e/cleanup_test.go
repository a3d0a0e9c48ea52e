package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/test/testbed"
)

// picture is all that netplugin may touch on a node.
const picture = `
echo "# switch"; ovs-vsctl --timeout=10 show | grep -v ovs_version
for t in bridge port interface; do ovs-vsctl --timeout=10 --columns=name,external_ids,other_config list $t | sort; done
ovs-vsctl --timeout=10 --columns=external_ids,other_config,manager_options list open_vswitch
echo "# links"; ip -d -o link | sed 's/ [0-9]*: / /' ; ip -o address; ip netns list | sed 's, (id.*,,'
echo "# routes"; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all
echo "# nftables"; nft list ruleset
echo "# settings"; sysctl -a -r '^net\.' 2>/dev/null | grep -v -e conntrack_count -e random
echo "# files"; find /run/contiv /var/lib/contiv /var/contiv /run/netns -path /var/lib/contiv/etcd -prune -o -printf '%p %M %U %s\n' 2>/dev/null | sort`

func TestCleanupLeavesTheNodeAsItWas(t *testing.T) {
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 1, Uplinks: 1})
	s := story{t, ctx, bed}
	n := bed.Nodes[0]
	s.must(n.StartNetmaster())
	_, err := n.Run(ctx, "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0", "net.ipv6.conf.eth0.accept_ra=1", "net.ipv4.conf.eth0.forwarding=1")
	s.must(err)
	settled := func() error { // the routes of an address come when it is no duplicate
		_, err := n.Run(ctx, "sh", "-ec", "! ip -6 address | grep -q tentative")
		return err
	}
	s.soon(shortly, settled)
	pod := s.sandbox(0, "pod", "blue", "front", "") // the runtime's, not ours
	before := s.picture(n)
	s.must(n.StartNetplugin())
	s.must(n.WaitReady(ctx))
	s.must(n.WaitWayOut(ctx))
	s.netctl("tenant", "create", "blue")
	s.netctl(strings.Fields("network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::1 front")...)
	s.netctl(strings.Fields("network create -t blue --nw-type infra -s 10.9.0.0/24 -g 10.9.0.254 contivh1")...)
	s.netctl(strings.Fields("bgp create node1 --router-ip " + nodeAddress(0) + "/24 --as 65001 --neighbor-as 65100 --neighbor " + routerAddress)...)
	s.must(pod.Attach(ctx))
	s.serve(pod)
	s.soon(shortly, func() error { return hostReaches(ctx, n, pod) })
	s.soon(shortly, func() error {
		_, err := n.Run(ctx, "sh", "-ec", "ip address show dev inb01 | grep -q "+nodeAddress(0)+" && [ -s /var/lib/contiv/border/routes.json ]")
		return err
	})
	s.soon(shortly, func() error {
		_, err := n.Run(ctx, "sh", "-ec", "[ $(cat /proc/sys/net/ipv6/conf/all/forwarding) = 1 ]")
		return err
	})

	if out, err := n.Run(ctx, n.Tool("netplugin"), "cleanup"); err == nil || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("while netplugin runs: %s, %v", out, err)
	}
	s.must(n.Netplugin().Kill())
	s.soon(shortly, settled)
	served := s.picture(n)
	dry, err := n.Run(ctx, n.Tool("netplugin"), "cleanup", "--dry-run")
	s.must(err)
	if got := s.picture(n); got != served {
		t.Errorf("a dry run changes something (-before +after):\n%s", cmp.Diff(served, got))
	}

	// Without the database, everything else goes, and what is left is said.
	_, err = n.Run(ctx, "mv", "/run/openvswitch/db.sock", "/run/openvswitch/db.away")
	s.must(err)
	out, err := n.Run(ctx, n.Tool("netplugin"), "cleanup")
	if err == nil || !strings.Contains(err.Error(), "1 things are left") {
		t.Errorf("without a database: %s, %v", out, err)
	}
	_, err = n.Run(ctx, "mv", "/run/openvswitch/db.away", "/run/openvswitch/db.sock")
	s.must(err)
	rest, err := n.Run(ctx, n.Tool("netplugin"), "cleanup")
	s.must(err)
	for _, thing := range strings.Split(strings.TrimSpace(dry), "\n") {
		if removed := strings.Replace(thing, "would remove", "removed", 1); !strings.Contains(out+rest, removed) {
			t.Errorf("a dry run says %q, and it was not:\n%s%s", thing, out, rest)
		}
	}
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(s.picture(n), "\n")); diff != "" {
		t.Errorf("the node is not as it was (-before +after):\n%s", diff)
	}
	if again, err := n.Run(ctx, n.Tool("netplugin"), "cleanup"); err != nil || again != "" {
		t.Errorf("a second cleanup: %q, %v", again, err)
	}
}

// picture shows a node as netplugin could change it. Whether the kernel still looks for
// others with one of its addresses changes by itself.
func (s story) picture(n *testbed.Node) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	out, err := n.Run(ctx, "sh", "-c", picture)
	s.must(err)
	return strings.ReplaceAll(out, " tentative", "")
}
