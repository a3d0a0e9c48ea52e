package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// ADDs that a node carries out at a time; as many wait, and the rest is refused.
const (
	addSlots  = 64
	addsAbove = 3
	manyADDs  = 2*addSlots + addsAbove
)

// hangingLimit bounds the story of ADDs that hang, recoverLimit the time until
// all of them are done once the netmasters go on.
const (
	hangingLimit = 3 * time.Minute
	recoverLimit = 90 * time.Second
)

// TestLongADDsThatHang suspends all netmasters, and the store with them, while
// more pods are made on a node than it has room for.
func TestLongADDsThatHang(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBed(t, testbed.Config{Nodes: 2})
	ctx, cancel := context.WithTimeout(ctx, hangingLimit)
	defer cancel()
	s := story{t, ctx, bed}
	fresh, err := bed.Snapshot(ctx)
	s.must(err)
	t.Cleanup(func() { nothingIsLeft(t, bed, fresh) })
	s.tenant("blue")
	s.network("blue", "front", "10.1.1.0/24")
	living, peer := s.pod(0, "living", "blue", "front", ""), s.pod(1, "peer", "blue", "front", "")
	doomed := s.pod(0, "doomed", "blue", "front", "")
	var pods []*testbed.Pod
	for i := range manyADDs {
		pods = append(pods, s.sandbox(0, fmt.Sprintf("many%d", i), "blue", "front", ""))
	}
	s.afterwards(func(context.Context) error { return s.eachMaster((*testbed.Process).Resume) })
	s.must(s.eachMaster((*testbed.Process).Suspend))

	resumed, refused := make(chan struct{}), make(chan error, manyADDs)
	var adds errgroup.Group
	defer adds.Wait() // of a story that fails meanwhile
	for _, pod := range pods {
		adds.Go(func() error { return addUntilItSucceeds(s.ctx, pod, resumed, refused) })
	}
	s.soon(shortly, func() error {
		if n := len(refused); n < addsAbove {
			return fmt.Errorf("%d ADDs were refused, want %d", n, addsAbove)
		}
		return nil
	})
	for range addsAbove {
		if err := <-refused; !strings.Contains(err.Error(), "commands of this kind are carried out") {
			s.Errorf("an ADD above what the node has room for is refused with %v", err)
		}
	}
	s.others(living, doomed)
	s.reachEachOther(shortly, living, peer)

	s.must(s.eachMaster((*testbed.Process).Resume))
	close(resumed)
	started := time.Now()
	s.must(adds.Wait())
	s.Logf("%d ADDs were done %s after the netmasters went on", manyADDs, time.Since(started))
	owner := map[netip.Addr]string{}
	for _, pod := range append(pods, living, peer) {
		if other := owner[pod.IP]; other != "" {
			s.Errorf("%s and %s were both given %s", other, pod.Name, pod.IP)
		}
		owner[pod.IP] = pod.Name
	}
	s.reachEachOther(shortly, living, peer)
	s.soon(shortly, func() error { return endpoints(s.ctx, s.bed, manyADDs+2) })
}

// others runs commands that the ADDs must not hold up. STATUS reports that an ADD would not be served, DEL defers
// the rest.
func (s story) others(living, doomed *testbed.Pod) {
	s.Helper()
	for _, command := range []struct {
		pod     *testbed.Pod
		verb    string
		refused bool
	}{{living, "check", false}, {living, "status", true}, {doomed, "del", false}} {
		started := time.Now()
		out, err := command.pod.CNI(s.ctx, command.verb)
		if (err != nil) != command.refused {
			s.Errorf("%s beside ADDs that hang: %s %v", command.verb, out, err)
		}
		s.Logf("%s took %s", command.verb, time.Since(started))
	}
}

// addUntilItSucceeds acts like a kubelet: it repeats a failed ADD, here once hope is closed.
func addUntilItSucceeds(ctx context.Context, pod *testbed.Pod, hope <-chan struct{}, refused chan<- error) error {
	err := pod.Attach(ctx)
	if err == nil {
		return nil
	}
	refused <- err
	select {
	case <-hope:
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, recoverLimit)
	defer cancel()
	return testkit.Poll(ctx, func() error { return pod.Attach(ctx) })
}

// eachMaster does something with the processes of all netmasters.
func (s story) eachMaster(do func(*testbed.Process) error) error {
	for _, n := range s.bed.Nodes {
		if err := do(n.Netmaster()); err != nil {
			return err
		}
	}
	return nil
}
