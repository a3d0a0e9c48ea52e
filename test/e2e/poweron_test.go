package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/netmaster/pki"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	// offFor is how long the cluster is switched off: longer than the life of any certificate except for CAs.
	offFor = 30 * 24 * time.Hour
	// powerOn is how long it may take until it serves, from when it is switched on.
	powerOn = 15 * time.Second
)

// TestLongAClusterThatWasOffForAMonthServesWithinSeconds cuts the power of a closed cluster whose netmasters have
// the store, and switches it on when every certificate has expired, including those between the members of the
// store. No operator helps. The clocks of its daemons are ahead by that month from their first instruction on.
func TestLongAClusterThatWasOffForAMonthServesWithinSeconds(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBed(t, testbed.Config{Nodes: 3, Secure: true, First: true})
	s := story{t, ctx, bed}
	s.tenant("blue")
	s.network("blue", "front", "10.1.0.0/16")
	old := []*testbed.Pod{s.pod(0, "a", "blue", "front", ""), s.pod(1, "b", "blue", "front", "")}
	s.reachEachOther(shortly, old...)
	for _, address := range tlsServers(bed) {
		cert, err := s.certificateOf(address)
		s.must(err)
		if !cert.NotAfter.Before(time.Now().Add(offFor)) {
			t.Errorf("the certificate of %s is good until %s: it does not end while the cluster is off", address, cert.NotAfter)
		}
	}

	var off errgroup.Group
	for _, n := range bed.Nodes {
		off.Go(n.Netmaster().Kill)
		off.Go(n.Netplugin().Kill)
	}
	s.must(off.Wait())
	for _, n := range bed.Nodes {
		n.SetClock(offFor)
		s.must(s.endedOnDisk(n))
	}
	fresh := s.sandboxes("late")
	on := time.Now()
	for _, n := range bed.Nodes {
		s.must(errors.Join(n.StartNetmaster(), n.StartNetplugin()))
	}
	var serving errgroup.Group
	for i, n := range bed.Nodes {
		serving.Go(func() error {
			return s.afterPowerOn(on, "netmaster of "+n.Name+" serves", func() error {
				_, err := n.Netctl(ctx, "tenant", "create", fmt.Sprint("tenant", i))
				return err
			})
		})
		serving.Go(func() error {
			return s.afterPowerOn(on, n.Name+" has a pod", func() error { return fresh[i].Attach(ctx) })
		})
	}
	s.must(serving.Wait())
	took := time.Since(on)
	t.Logf("the cluster serves after %s", took.Round(time.Millisecond))
	if took > powerOn {
		t.Errorf("that is more than %s", powerOn)
	}
	for _, pod := range fresh {
		s.serve(pod)
	}
	s.reachEachOther(shortly, append(old, fresh...)...)
	for _, address := range tlsServers(bed) {
		cert, err := s.certificateOf(address)
		s.must(err)
		if now := time.Now().Add(offFor); now.Before(cert.NotBefore) || now.After(cert.NotAfter) {
			t.Errorf("the certificate of %s is good from %s to %s, and there it is %s", address, cert.NotBefore, cert.NotAfter, now)
		}
	}
}

// sandboxes returns pods that are not attached yet, one on each node.
func (s story) sandboxes(name string) (pods []*testbed.Pod) {
	s.Helper()
	for i := range s.bed.Nodes {
		pods = append(pods, s.sandbox(i, fmt.Sprint(name, i), "blue", "front", ""))
	}
	return pods
}

// afterPowerOn tries until it succeeds, also later than it should, and logs when that was.
func (s story) afterPowerOn(on time.Time, what string, try func() error) error {
	ctx, cancel := context.WithTimeout(s.ctx, 4*powerOn)
	defer cancel()
	err := testkit.Poll(ctx, try)
	if err == nil {
		s.Logf("%s after %s", what, time.Since(on).Round(time.Millisecond))
	}
	return err
}

// endedOnDisk expects that a node's stored certificates have expired while it was off.
func (s story) endedOnDisk(n *testbed.Node) error {
	store := n.StoreFilesOutside().Cert
	for _, file := range []string{store, filepath.Join(filepath.Dir(store), "node.crt")} {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		cert, err := pki.ParseCertificates(text)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if !cert[0].NotAfter.Before(time.Now().Add(offFor)) {
			return fmt.Errorf("%s is good until %s", file, cert[0].NotAfter)
		}
	}
	return nil
}
