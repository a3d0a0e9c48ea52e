package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// before is the version from which clusters are upgraded, and to which they are downgraded.
const before = "0b7ef61"

// upgradeLimit bounds an upgrade and a downgrade, stageLimit one node's part of it.
const (
	upgradeLimit = 4 * time.Minute
	stageLimit   = 30 * time.Second
)

// TestLongAClusterIsUpgradedAndGoesBackUnderTraffic replaces the daemons node by node, by those of another
// version, and with them the layout of flows in the switches and of records in the store. Pods notice nothing, and
// all objects that are created and deleted meanwhile are so in the end.
func TestLongAClusterIsUpgradedAndGoesBackUnderTraffic(t *testing.T) {
	testkit.TakesLong(t)
	if err := inHistory(before); err != nil {
		t.Fatal(err) // it needs the history of the source, which a shallow clone has not
	}
	old := buildOf(t, before)
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 3, First: true, Readers: true})
	ctx, cancel := context.WithTimeout(ctx, upgradeLimit)
	defer cancel()
	s, now := story{t, ctx, bed}, bed.Bin
	linkTools(t, now, old)
	bed.Bin = old
	s.must(bed.StartDaemons(ctx))
	fresh, err := bed.Snapshot(ctx)
	s.must(err)
	t.Cleanup(func() { nothingIsLeft(t, bed, fresh) })

	front, back := s.guarded()
	neighbour := s.pod(0, "front2", "blue", "front", "")
	far := s.pod(2, "front3", "blue", "front", "")
	s.isGuardedAgain(front, back)
	for _, step := range []struct {
		name string
		do   func(name string)
	}{
		{"upgraded", func(name string) {
			s.roll(name, now, front, back)
			s.must(bed.Nodes[1].WaitWayOut(ctx)) // added with the pods made there
		}},
		{"returned", func(name string) {
			s.withoutSizes()
			s.roll(name, old, front, back)
		}},
	} {
		s.withoutLoss(front, neighbour, func() {
			s.withoutLoss(far, front, func() { step.do(step.name) })
		})
		s.isGuardedAgain(front, back)
		s.reachEachOther(shortly, front, neighbour, far)
	}
}

// roll replaces the daemons, one node after the other. At every stage a pod is made, on the second node, whose
// agent is of the version before at first; the links of the nodes that the streams pass stay as they are: the
// switches of this bed read their routes, as the version before needs it, and lose packets of tunnels when links
// are added.
func (s story) roll(name, bin string, front, back *testbed.Pod) {
	s.Helper()
	s.bed.Bin = bin
	var made []*testbed.Pod
	for i, n := range s.bed.Nodes {
		s.must(n.Netmaster().Terminate())
		s.must(n.StartNetmaster())
		s.soon(stageLimit, func() error { return memberServes(s.ctx, n) })
		s.soon(stageLimit, func() error { return createTenant(s.ctx, n, "stage") })
		s.must(deleteTenant(s.ctx, n, "stage"))
		s.must(n.Netplugin().Terminate())
		s.must(n.StartNetplugin())
		s.must(n.WaitReady(s.ctx))
		s.Logf("%s: %s is %s", time.Now().UTC().Format(logTime), n.Name, name)
		pod := s.sandbox(1, fmt.Sprintf("%s%d", name, i), "blue", "front", "")
		s.must(pod.Attach(s.ctx))
		s.serve(pod)
		s.reachEachOther(shortly, append(made, pod, front)...)
		s.isGuardedAgain(pod, back)
		made = append(made, pod)
	}
	for _, pod := range made {
		_, err := pod.CNI(s.ctx, "del")
		s.must(err)
	}
	s.soon(shortly, func() error { return endpoints(s.ctx, s.bed, 4) })
}

// withoutSizes makes agents do without the actions that the version before cannot parse in dumps of flows, as on
// the operations page.
func (s story) withoutSizes() {
	s.Helper()
	for _, n := range s.bed.Nodes {
		s.must(n.Netplugin().Terminate())
		s.must(n.StartNetplugin("--packet-too-big=false"))
		s.must(n.WaitReady(s.ctx))
		if left := s.programmed(n); strings.Contains(left, "check_pkt_larger") {
			s.Fatalf("%s still compares sizes:\n%s", n.Name, left)
		}
	}
}

// memberServes expects that a node's member of the store takes part in it.
func memberServes(ctx context.Context, n *testbed.Node) error {
	got, err := send(ctx, n, http.MethodGet, "http://"+n.MgmtIP+":2379/health", nil)
	if err == nil && !strings.Contains(got.body, `"health":"true"`) {
		err = fmt.Errorf("%s: the store's member says %d %q", n.Name, got.status, got.body)
	}
	return err
}

// inHistory returns an error if this clone does not reach back to a version.
func inHistory(commit string) error {
	if out, err := exec.Command("git", "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		return fmt.Errorf("this clone does not have commit %s: %w %s", commit, err, out)
	}
	return nil
}

// buildOf builds the programs of a version before from the history of this clone.
func buildOf(t *testing.T, commit string) (bin string) {
	t.Helper()
	source, bin := t.TempDir(), t.TempDir()
	build := exec.Command("sh", "-ec", `
git -C "$(git rev-parse --show-toplevel)" archive "$1" | tar -x -C "$2"
cd "$2"
for program in netmaster netplugin contivk8s netctl; do go build -trimpath -o "$3/$program" ./cmd/$program; done`,
		"sh", commit, source, bin)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build commit %s: %v\n%s", commit, err, out)
	}
	return bin
}

// linkTools gives the daemons of another version the tools of the tests.
func linkTools(t *testing.T, from, to string) {
	t.Helper()
	for _, tool := range []string{"probe", "cnitool"} {
		if err := os.Symlink(filepath.Join(from, tool), filepath.Join(to, tool)); err != nil {
			t.Fatal(err)
		}
	}
}
