package e2e

import (
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// Pods are added and deleted at both ends of a tunnel, and with them links of the nodes, for which Open vSwitch in
// user space need not revalidate anything.
func TestLongPodsThatComeAndGoCostOthersNothing(t *testing.T) {
	testkit.TakesLong(t)
	const turns = 60
	ctx, bed := newBed(t, testbed.Config{Nodes: 2, First: true})
	s := story{t, ctx, bed}
	s.tenant("blue")
	s.netctlForNow("network create -t blue -s 10.1.1.0/24 -g 10.1.1.254 -s6 fd00:1::/64 -g6 fd00:1::fe both", "network rm -t blue both")
	here, there := s.pod(0, "here", "blue", "both", ""), s.pod(1, "there", "blue", "both", "")
	s.reachEachOther(shortly, here, there)
	s.withoutLossOfBoth(here, there, func() {
		var nodes errgroup.Group
		for i, n := range bed.Nodes {
			nodes.Go(func() error {
				for turn := range turns {
					if err := podComesAndGoes(ctx, &testbed.Pod{Name: fmt.Sprintf("passing-%d-%d", i, turn), Node: n, Tenant: "blue", Network: "both"}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		s.must(nodes.Wait())
	})
}
