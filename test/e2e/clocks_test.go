package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// clockRight is how long it may take until a cluster serves after its clocks were set: certificates are checked
// each minute.
const clockRight = 150 * time.Second

// TestLongAClusterServesAfterItsClocksWereSet sets the clocks of running daemons of a closed cluster ahead by more
// than the life of certificates, of all, or of the leader's machine or a node alone, and right again: certificates
// signed meanwhile begin in days or years. Pods go on.
func TestLongAClusterServesAfterItsClocksWereSet(t *testing.T) {
	testkit.TakesLong(t)
	const day = 24 * time.Hour
	ctx, bed := newBed(t, testbed.Config{Nodes: 3, Secure: true, First: true})
	s, cancel := story{t, ctx, bed}.within(15 * time.Minute)
	defer cancel()
	s.tenant("blue")
	s.network("blue", "front", "10.1.0.0/16")
	here, there := s.pod(0, "a", "blue", "front", ""), s.pod(1, "b", "blue", "front", "")
	s.reachEachOther(shortly, here, there)
	report := s.whileFlowing([]flow{{name: "old", from: here, to: there.IP}, {name: "fresh", from: there, to: here.IP, fresh: true}}, func() {
		for i, set := range []struct {
			ahead map[int]time.Duration // by node
			agree bool                  // so that all work
		}{
			{map[int]time.Duration{0: 10 * day, 1: 10 * day, 2: 10 * day}, true},
			{nil, true},
			{map[int]time.Duration{0: 400 * day, 1: 400 * day}, false},
			{nil, true},
			{map[int]time.Duration{2: -60 * day}, false},
			{nil, true},
		} {
			for n, node := range bed.Nodes {
				s.must(errors.Join(node.Netmaster().SetClock(set.ahead[n]), node.Netplugin().SetClock(set.ahead[n])))
			}
			s.now("clocks are ahead by %v", set.ahead)
			if set.agree {
				s.servesAt(fmt.Sprint("late", i), set.ahead[0])
			} else {
				s.pause(clockRight / 2) // what is signed again each minute has been
			}
		}
	})
	for i, r := range report {
		if r.Lost != 0 || r.Sent == 0 {
			t.Errorf("stream %d: lost %d of %d", i, r.Lost, r.Sent)
		}
	}
}

// servesAt expects of a cluster whose clocks are ahead that each netmaster serves, each node has a pod, and
// certificates are good.
func (s story) servesAt(name string, ahead time.Duration) {
	s.Helper()
	set := time.Now()
	for i, n := range s.bed.Nodes {
		s.slowly(clockRight-time.Since(set), func() error {
			_, err := n.Netctl(s.ctx, "tenant", "create", fmt.Sprint(name, "-", i))
			return err
		})
		pod := s.sandbox(i, fmt.Sprint(name, "-", i), "blue", "front", "")
		s.slowly(clockRight-time.Since(set), func() error { return pod.Attach(s.ctx) })
	}
	s.slowly(clockRight-time.Since(set), func() error {
		var wrong []error
		for _, address := range tlsServers(s.bed) {
			cert, err := s.certificateOf(address)
			if now := time.Now().Add(ahead); err == nil && (now.Before(cert.NotBefore) || now.After(cert.NotAfter)) {
				err = fmt.Errorf("the certificate of %s is good from %s to %s, and there it is %s", address, cert.NotBefore, cert.NotAfter, now)
			}
			wrong = append(wrong, err)
		}
		return errors.Join(wrong...)
	})
	s.now("all serve after %s", time.Since(set).Round(time.Second))
}
