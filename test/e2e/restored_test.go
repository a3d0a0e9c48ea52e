package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testkit"
)

// TestLongTheStoreGoesBackUnderLivingPods restores a backup by the commands of docs/operations.md.
func TestLongTheStoreGoesBackUnderLivingPods(t *testing.T) {
	testkit.TakesLong(t)
	tell(t, 3, []chapter{
		{"pods made since a backup live on when the store goes back to it, and no other gets their addresses", theStoreGoesBack},
	})
}

// rewind is how long a rule that the backup does not have may stay: what a restored store lacks is retained for
// two minutes.
const rewind = 3 * time.Minute

func theStoreGoesBack(s story) {
	front, back := s.guarded()
	neighbour := s.pod(2, "front2", "blue", "front", "")
	s.afterwards(func(ctx context.Context) error { return startMasters(ctx, s.bed) })
	s.killMasters()
	s.eachStore(`cp -a "$1" "$1.backup"`)
	s.startMasters()

	s.netctl("tenant", "create", "red")
	late, later := s.pod(0, "late", "blue", "front", ""), s.pod(1, "later", "blue", "front", "")
	s.netctl(strings.Fields("policy rule-add -t blue -d in -l tcp -P 80 -j deny guard no-tcp")...)
	s.soon(shortly, func() error {
		if isGuarded(s.ctx, front, back) == nil {
			return errors.New("the new rule is not in force")
		}
		return nil
	})
	s.reachEachOther(shortly, front, neighbour, late, later)

	s.withoutLoss(front, neighbour, func() {
		s.withoutLoss(late, later, func() {
			s.killMasters()
			s.eachStore(`rm -r "$1"; mv "$1.backup" "$1"`)
			s.startMasters()
			// The two are announced again.
			s.soon(shortly, func() error { return endpoints(s.ctx, s.bed, 5) })
		})
	})
	s, done := s.within(2 * rewind)
	defer done()
	took := s.soon(rewind, func() error { return isGuarded(s.ctx, front, back) })
	s.Logf("the rules are those of the backup %s later", took)
	if out := s.netctl("tenant", "ls", "-q"); strings.Contains(out, "red") {
		s.Errorf("a tenant that was made since the backup: %s", out)
	}
	last := s.pod(2, "last", "blue", "front", "")
	s.reachEachOther(shortly, front, neighbour, late, later, last)
	if last.IP == late.IP || last.IP == later.IP {
		s.Errorf("%s was given twice", last.IP)
	}
}

// eachStore runs a command with the folder of the member of the store, on each node.
func (s story) eachStore(command string) {
	s.Helper()
	var g errgroup.Group
	for _, n := range s.bed.Nodes {
		g.Go(func() error {
			_, err := n.Run(s.ctx, "sh", "-ec", command, "sh", n.StoreDir())
			return err
		})
	}
	s.must(g.Wait())
}
