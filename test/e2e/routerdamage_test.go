package e2e

import (
	"fmt"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// routerIsDamaged removes, one after the other, the parts that make a node a router, and expects that its pods
// reach the world again.
func (s story) routerIsDamaged(node *testbed.Node, pod *testbed.Pod) {
	s.Helper()
	const parts = `cd /sys/class/net/inb01; cat address operstate; ip -o address show dev inb01 scope global | awk '{print $4}'
nft list table arp contiv; ovs-vsctl list-ports contivVlanBridge | wc -l`
	whole, err := node.Run(s.ctx, "sh", "-ec", parts)
	s.must(err)
	for _, damage := range []string{
		"ip address flush dev inb01",
		"ip link set inb01 down",
		"nft flush ruleset",
		"ip link delete inb01",
		`ovs-vsctl del-port "$(ip -o link show dev inb01 | sed 's/.*inb01@\([^:]*\):.*/\1/')"`,
		"ovs-vsctl del-port contivVlanBridge uplinkPatch",
		"ovs-vsctl del-br contivVlanBridge",
	} {
		_, err := node.Run(s.ctx, "sh", "-ec", damage)
		s.must(err)
		began := time.Now()
		s.soon(30*time.Second, func() error {
			now, err := node.Run(s.ctx, "sh", "-ec", parts)
			if err == nil && now != whole {
				err = fmt.Errorf("%s: %s is\n%s\nand was\n%s", damage, node.Name, now, whole)
			}
			return err
		})
		s.established()
		for _, world := range []string{world4, world6} {
			s.soon(20*time.Second, func() error { return pingsWorld(s.ctx, pod, world) })
		}
		s.Logf("%s: the world is there again after %s", damage, time.Since(began).Round(10*time.Millisecond))
	}
}
