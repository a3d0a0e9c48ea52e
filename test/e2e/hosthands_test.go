package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

func TestLongHandsOnAHost(t *testing.T) {
	testkit.TakesLong(t)
	tell(t, 2, []chapter{
		{"what somebody changes on a host is set right, and what others have stays", somebodyChangesTheHost},
	})
}

// hostChanges are what an operator may do to our configuration of a host.
var hostChanges = []struct{ what, script string }{
	{"the rules, flushed", `nft flush table inet contiv`},
	{"all rules of the host, as the start of another firewall does it", `nft flush ruleset`},
	{"a set of the rules, emptied", `nft flush set inet contiv control-ports`},
	{"a rule in front of ours", `nft insert rule inet contiv leave-masquerade accept`},
	{"what ends tunnels at their links, removed", `nft delete table netdev contiv`},
	{"forwarding, switched off", `sysctl -qw net.ipv4.ip_forward=0`},
	{"forwarding, switched off of the way out", `sysctl -qw net.ipv4.conf.contivh0.forwarding=0`},
	{"the way out, set down", `ip link set contivh0 down`},
	{"the way out, without addresses", `ip address flush dev contivh0`},
	{"the way out, with another MTU and MAC", `ip link set contivh0 mtu 1000 address 02:00:00:00:00:07`},
	{"the host's interface, set down", `ip link set contivh1 down`},
	{"the host's interface, with another address", `ip address flush dev contivh1; ip address add 203.0.114.9/24 dev contivh1`},
	{"a route, removed", `ip route del 10.1.1.0/24`},
	{"a route of our protocol, added", `ip route add 198.18.9.0/24 dev contivh1 proto 168`},
	{"the host's interface, removed", `ip link delete contivh1`},
	{"the port of the way out", `ovs-vsctl --timeout=10 del-port "$(ovs-vsctl --timeout=10 --bare --columns=name find interface external_ids:endpoint-id=hostcontivh0)"`},
	{"the bridge", `ovs-vsctl --timeout=10 del-br contivVxlanBridge`},
}

// theirsScript makes foreign configuration that looks like ours; theirsPicture shows it.
const (
	theirsScript = `
ip link add theirs type bridge; ip link set theirs up; ip address add 192.0.2.129/25 dev theirs
ip route add 198.18.0.0/24 dev theirs proto 99; ip route add 198.18.1.0/24 dev theirs table 77
nft add table ip contiv; nft add chain ip contiv theirs; nft add rule ip contiv theirs counter accept
sysctl -qw net.ipv4.conf.theirs.forwarding=1 net.ipv4.conf.theirs.rp_filter=2
ovs-vsctl --timeout=10 -- add-br br-theirs -- set bridge br-theirs datapath_type=netdev fail_mode=secure
ovs-ofctl add-flow br-theirs actions=normal; ovs-ofctl add-group br-theirs group_id=1,type=all -OOpenFlow13`
	theirsPicture = `
ip -o -4 address show dev theirs; ip -4 route show table all | grep theirs; nft list table ip contiv
sysctl net.ipv4.conf.theirs.forwarding net.ipv4.conf.theirs.rp_filter
ovs-vsctl --timeout=10 list bridge br-theirs | grep -v status; ovs-ofctl --no-stats dump-flows br-theirs; ovs-ofctl -OOpenFlow13 dump-groups br-theirs | grep -v reply`
	withoutTheirs = `ovs-vsctl --timeout=10 del-br br-theirs; ip link delete theirs; nft delete table ip contiv`
)

// somebodyChangesTheHost damages our configuration of the host, with an agent and without, and expects that it is
// restored before the next audit.
func somebodyChangesTheHost(s story) {
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	near := s.pod(0, "near", "blue", "front", "")
	s.netctlForNow("network create -t blue --nw-type infra -s 10.9.0.0/24 -g 10.9.0.254 contivh1", "network rm -t blue contivh1")
	host, outside := s.bed.Nodes[0], netip.MustParseAddr(s.bed.Nodes[1].MgmtIP)
	run := func(script string) string {
		s.Helper()
		out, err := host.Run(s.ctx, "sh", "-ec", script)
		s.must(err)
		return out
	}
	run(theirsScript)
	defer run(withoutTheirs)
	s.soon(shortly, func() error { return s.hostIsWhole(host, near, outside) })
	whole, theirs := run(ownPicture), run(theirsPicture)
	isWhole := func(what string) error {
		if err := s.hostIsWhole(host, near, outside); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if now := run(ownPicture); now != whole {
			return fmt.Errorf("%s: the host was\n%s\nand is\n%s", what, whole, now)
		}
		return nil
	}
	for _, c := range hostChanges {
		run(c.script)
		took := s.soon(soonerThanAudits, func() error { return isWhole(c.what) })
		s.Logf("%s: set right after %s", c.what, took)
		if strings.Contains(c.script, "ruleset") {
			run("nft add table ip contiv; nft add chain ip contiv theirs; nft add rule ip contiv theirs counter accept")
		}
	}
	s.must(host.Netplugin().Kill())
	for _, c := range hostChanges {
		if !strings.Contains(c.script, "ruleset") {
			_, _ = host.Run(s.ctx, "sh", "-c", c.script) // what is not there any more cannot be changed
		}
	}
	s.must(host.StartNetplugin())
	s.must(host.WaitReady(s.ctx))
	s.soon(shortly, func() error { return isWhole("all of it, while no agent ran") })
	if now := run(theirsPicture); now != theirs {
		s.Errorf("what is somebody else's was\n%s\nand is\n%s", theirs, now)
	}
}

// soonerThanAudits is less than the time between two audits of the host and the switch.
const soonerThanAudits = 20 * time.Second

// ownPicture prints our configuration of a host, without counters and numbers that may change.
const ownPicture = `
nft --stateless --terse list table inet contiv; nft --stateless list set inet contiv control-ports; nft --stateless list table netdev contiv || echo none
for i in contivh0 contivh1; do ip -o link show $i | grep -o 'mtu.*' | sed 's/ qlen.*link/ link/'; ip -o -4 address show $i | sed 's/^[0-9]*://'; ip route show dev $i; done
sysctl net.ipv4.ip_forward`

// hostIsWhole returns what does not work of our configuration of a host.
func (s story) hostIsWhole(host *testbed.Node, pod *testbed.Pod, outside netip.Addr) error {
	if err := pinged(s.ctx, pod.Run, outside); err != nil {
		return fmt.Errorf("the way out: %w", err)
	}
	if err := pinged(s.ctx, host.Run, pod.IP); err != nil {
		return fmt.Errorf("the host to a pod: %w", err)
	}
	return nil
}
