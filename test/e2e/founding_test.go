package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// lives are the lifetimes of netmasters that are killed on their way into a cluster: from before the flags are
// read until it serves.
var lives = []time.Duration{20, 60, 120, 200, 300, 450, 700, 1000, 1500}

// TestLongNetmastersAreKilledWhileTheyFoundAStore kills the netmaster that founds a store, and then those that
// enter it, repeatedly, ever later. In the end each of them has a member with a vote.
func TestLongNetmastersAreKilledWhileTheyFoundAStore(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 3, Secure: true})
	s := story{t, ctx, bed}
	for i, n := range bed.Nodes {
		for _, life := range lives {
			s.must(n.StartNetmaster())
			<-time.After(life * time.Millisecond)
			s.must(n.Netmaster().Kill())
		}
		s.must(n.StartNetmaster())
		if i == 0 {
			s.must(bed.GiveTokens(ctx))
		}
	}
	etcd := s.administer(bed.Nodes[0])
	s.soon(time.Minute, func() error {
		list, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if m.IsLearner || m.Name == "" {
				return fmt.Errorf("member %q has no vote", m.Name)
			}
		}
		if len(list.Members) != len(bed.Nodes) {
			return fmt.Errorf("%d members", len(list.Members))
		}
		return nil
	})
	for _, n := range bed.Nodes {
		s.soon(time.Minute, func() error {
			_, err := n.Netctl(ctx, "tenant", "ls")
			return err
		})
	}
}
