package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/test/testbed"
)

// picture prints all that netplugin may change on a node.
const picture = `
echo "# switch"; ovs-vsctl --timeout=10 show | grep -v ovs_version
for t in bridge port interface; do ovs-vsctl --timeout=10 --columns=name,external_ids,other_config list $t | sort; done
ovs-vsctl --timeout=10 --columns=external_ids,other_config,manager_options list open_vswitch
echo "# links"; ip -d -o link | sed 's/ [0-9]*: / /' ; ip -o address; ip netns list | sed 's, (id.*,,'
echo "# routes"; ip rule; ip -6 rule; ip route show table all | sort; ip -6 route show table all | sort
echo "# nftables"; nft list ruleset
echo "# settings"; sysctl -a -r '^net\.' 2>/dev/null | grep -v -e conntrack_count -e random
echo "# files"; find /run/contiv /var/lib/contiv /var/contiv /run/netns -path /var/lib/contiv/etcd -prune -o -printf '%p %M %U\n' 2>/dev/null | sort
find /run/contiv /var/lib/contiv /var/contiv -path /var/lib/contiv/etcd -prune -o -type f -exec sha256sum {} + 2>/dev/null | sort`

func TestCleanupLeavesTheNodeAsItWas(t *testing.T) {
	t.Parallel()
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 1, Uplinks: 2})
	s := story{t, ctx, bed}
	n := bed.Nodes[0]
	s.must(n.StartNetmaster())
	_, err := n.Run(ctx, "sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0", "net.ipv6.conf.eth0.accept_ra=1", "net.ipv4.conf.eth0.forwarding=1")
	s.must(err)
	s.hostOnUplink(n)
	s.soon(shortly, func() error { return s.settled(n) })
	pod, onVLAN := s.sandbox(0, "pod", "blue", "front", ""), s.sandbox(0, "lan", "blue", "lan", "") // the runtime's, not ours
	before := s.picture(n)
	s.must(n.StartNetplugin("--vlan-uplinks", "eth1,eth2", "--vlan-bond-mode", "active-backup"))
	s.must(n.WaitReady(ctx))
	s.must(n.WaitWayOut(ctx))
	s.netctl("tenant", "create", "blue")
	s.netctl(strings.Fields("network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::1 front")...)
	s.netctl(strings.Fields("network create -t blue --nw-type infra -s 10.9.0.0/24 -g 10.9.0.254 contivh1")...)
	s.netctl(strings.Fields("bgp create node1 --router-ip " + nodeAddress(0) + "/24 --as 65001 --neighbor-as 65100 --neighbor " + routerAddress)...)
	s.netctl(strings.Fields("network create -t blue -e vlan -p 107 -s 10.1.7.0/24 -g 10.1.7.254 -s6 fd00:7::/64 -g6 fd00:7::fe lan")...)
	s.netctl(strings.Fields("service create -t blue -s front -l app=web -ip 10.1.1.200 -ip6 fd00:1::c8 -x " + outsideVIP + " -x " + outsideVIP6 +
		" -p " + tcpPort + ":80:TCP -n " + tcpNodePort + ":" + tcpPort + ":TCP web")...)
	pod.Labels = map[string]string{"app": "web"}
	for _, p := range []*testbed.Pod{pod, onVLAN} {
		s.must(p.Attach(ctx))
		s.serve(p)
	}
	s.soon(shortly, func() error { return hostReaches(ctx, n, pod) })
	s.pings(onVLAN, "10.1.7.254")
	s.servedOutside(net.JoinHostPort(hostUplink4, tcpNodePort), net.JoinHostPort(hostUplink6, tcpNodePort),
		net.JoinHostPort(outsideVIP, tcpPort), net.JoinHostPort(outsideVIP6, tcpPort))
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
	s.soon(shortly, func() error { return s.settled(n) })
	served := s.picture(n)
	dry, err := n.Run(ctx, n.Tool("netplugin"), "cleanup", "--dry-run")
	s.must(err)
	if got := s.picture(n); got != served {
		t.Errorf("a dry run changes something (-before +after):\n%s", cmp.Diff(served, got))
	}

	// Without the database, everything but bridges and uplinks is removed, and what is left is reported.
	_, err = n.Run(ctx, "mv", "/run/openvswitch/db.sock", "/run/openvswitch/db.away")
	s.must(err)
	out, err := n.Run(ctx, n.Tool("netplugin"), "cleanup")
	if err == nil || !strings.Contains(err.Error(), "2 things are left") {
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
	s.soon(shortly, func() error { return s.settled(n) })
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(s.picture(n), "\n")); diff != "" {
		t.Errorf("the node is not as it was (-before +after):\n%s", diff)
	}
	if again, err := n.Run(ctx, n.Tool("netplugin"), "cleanup"); err != nil || again != "" {
		t.Errorf("a second cleanup: %q, %v", again, err)
	}
}

// The host and the router of its egress.
const (
	hostUplink4, hostRouter4 = "203.0.113.5", "203.0.113.254"
	hostUplink6, hostRouter6 = "2001:db8:113::5", "2001:db8:113::fe"
)

// hostOnUplink gives a host its addresses on its first uplink, and all its routes. The external router has routes
// to the external addresses of services by it.
func (s story) hostOnUplink(n *testbed.Node) {
	s.Helper()
	_, err := s.bed.Outside.Run(s.ctx, "sh", "-ec", `
ip address add `+hostRouter4+`/24 dev native
ip address add `+hostRouter6+`/64 dev native nodad
ip route add `+outsideVIP+` via `+hostUplink4+`
ip -6 route add `+outsideVIP6+` via `+hostUplink6)
	s.must(err)
	_, err = n.Run(s.ctx, "sh", "-ec", `
ip address add `+hostUplink4+`/24 dev eth1
ip address add 203.0.113.6/24 dev eth1 label eth1:6
ip address add `+hostUplink6+`/64 dev eth1 nodad
ip route add default via `+hostRouter4+` proto static metric 50
ip route add 192.0.2.128/25 via `+hostRouter4+` mtu 1400
ip -6 route add default via `+hostRouter6+` dev eth1 metric 50`)
	s.must(err)
}

// servedOutside expects answers to the external router at ports of services.
func (s story) servedOutside(at ...string) {
	s.Helper()
	s.soon(shortly, func() error {
		out, err := s.bed.Outside.Run(s.ctx, s.bed.Nodes[0].Tool("probe"), "reach", "-wait", "2s", "-tcp", strings.Join(at, ","))
		var answers map[string]string
		if err == nil {
			err = json.Unmarshal([]byte(out), &answers)
		}
		for _, where := range at {
			if err == nil && answers[where] == "" {
				err = fmt.Errorf("the router outside is answered by %v, not at %s", answers, where)
			}
		}
		return err
	})
}

// picture returns the state of a node that netplugin could change. It leaves out whether duplicate address
// detection still runs, which changes without netplugin.
func (s story) picture(n *testbed.Node) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 20*time.Second)
	defer cancel()
	out, err := n.Run(ctx, "sh", "-c", picture)
	s.must(err)
	return strings.ReplaceAll(out, " tentative", "")
}
