package e2e

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	// leafLife is the life of certificates here; they are renewed after half of it. CONTIV_TEST_LEAF_LIFE sets
	// another one, for a shorter check.
	leafLife = time.Minute
	// renewals is the number of awaited renewals of each certificate, of lives, and of steps that replace the CAs.
	renewals = 10
	// ordinaryTime is how long the same cluster runs beforehand, with certificates that are not renewed.
	ordinaryTime = 2 * time.Minute
	// lookEvery is the time between two looks, which must not be the load themselves.
	lookEvery = time.Second
)

// TestLongCertificatesAreReplacedUnderLife has certificates of a minute in a cluster whose nodes reach the state
// through netmasters, and then other CAs, while pods are added and deleted, endpoints are made through each
// netmaster, tenants are watched at each, and datagrams pass. No request fails, no watch ends, no datagram is lost
// and no process is another one at the end. Losses in the same time without renewals, if any, are the machine's.
func TestLongCertificatesAreReplacedUnderLife(t *testing.T) {
	testkit.TakesLong(t)
	life := leafLife
	if text := os.Getenv("CONTIV_TEST_LEAF_LIFE"); text != "" {
		var err error
		if life, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("certificates stay", func(t *testing.T) {
		lived(t, ordinaryTime+time.Minute, func(s story) { s.pause(ordinaryTime) })
	})
	t.Run("certificates and authorities are replaced", func(t *testing.T) {
		t.Setenv("CONTIV_NETMASTER_LEAF_LIFE", life.String())
		lived(t, 3*renewals*life, func(s story) { s.replaceCertificates(life) })
	})
}

// lived has a cluster in use while something happens, within a time.
func lived(t *testing.T, within time.Duration, happens func(story)) {
	ctx, bed := newBareBedFor(t, bedLimit+within, testbed.Config{Nodes: 3, Secure: true, First: true})
	startDaemons(t, ctx, bed, "--netmasters", "https://"+bed.Nodes[0].MgmtIP+":9999")
	s := story{t, ctx, bed}
	s.tenant("blue")
	s.network("blue", "front", "10.1.0.0/16")
	here, there := s.pod(1, "here", "blue", "front", ""), s.pod(2, "there", "blue", "front", "")
	s.reachEachOther(shortly, here, there)

	report := s.whileFlowing([]flow{{name: "old", from: here, to: there.IP}, {name: "fresh", from: there, to: here.IP, fresh: true}}, func() {
		life := s.live("blue", "front")
		happens(s)
		life.end(s)
	})
	for i, r := range report {
		if r.Lost != 0 || r.Sent == 0 {
			t.Errorf("stream %d: lost %d of %d", i, r.Lost, r.Sent)
		}
	}
	for _, n := range bed.Nodes {
		if n.Netmaster().Exited() || n.Netplugin().Exited() {
			t.Errorf("a daemon of %s has ended", n.Name)
		}
	}
}

// replaceCertificates returns when all have been renewed so often, and the CAs replaced.
func (s story) replaceCertificates(life time.Duration) {
	s.Helper()
	began, shown := time.Now(), s.newShown()
	s.now("renewals begin")
	s.slowly(renewals*life, func() error { return shown.renewed(s, renewals) })
	s.now("all certificates have been renewed %d times", renewals)
	for _, step := range []string{"add", "switch", "drop"} {
		s.slowly(2*life+time.Minute, func() error {
			out, err := s.bed.Netctl(s.ctx, "security", "rotate-ca")
			if err == nil && !strings.HasPrefix(out, "Step "+step+" is done") {
				s.Errorf("want step %s: %s", step, out)
			}
			return err
		})
		s.now("step %s is done", step)
	}
	shown = s.newShown()
	s.slowly(3*life, func() error { return shown.renewed(s, 2) })
	s.now("all have been renewed twice by the other authorities")
	s.pause(time.Until(began.Add(renewals * life)))
}

// now logs an event with its time.
func (s story) now(what string, args ...any) {
	s.Helper()
	s.Logf("%s %s", time.Now().UTC().Format(logTime), fmt.Sprintf(what, args...))
}

// slowly is soon for an expensive question.
func (s story) slowly(limit time.Duration, question func() error) {
	s.Helper()
	s.soon(limit, func() error {
		err := question()
		if err != nil {
			s.pause(lookEvery)
		}
		return err
	})
}

// shown records the certificates that all holders have presented before and since a moment.
type shown struct {
	before, since map[string][]string // serial numbers, by holder
}

// newShown begins with none.
func (s story) newShown() shown {
	s.Helper()
	all := shown{since: map[string][]string{}}
	s.soon(shortly, func() (err error) {
		all.before, err = s.serials()
		return err
	})
	return all
}

// renewed looks at all present certificates, and returns an error for holders with fewer renewals than that.
func (all shown) renewed(s story, times int) error {
	now, err := s.serials()
	if err != nil {
		return err
	}
	var behind []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		for _, serial := range now[name] {
			if !slices.Contains(all.before[name], serial) && !slices.Contains(all.since[name], serial) {
				all.since[name] = append(all.since[name], serial)
			}
		}
		if got := len(all.since[name]); got < times {
			behind = append(behind, fmt.Sprintf("%s: %d", name, got))
		}
	}
	if len(behind) > 0 {
		return fmt.Errorf("renewals so far: %s", strings.Join(behind, ", "))
	}
	return nil
}

// serials returns those of the certificate that each server presents now, and of all that netmasters have
// presented to each other as clients. A node presents the one that it serves with; so do the members of the store.
func (s story) serials() (map[string][]string, error) {
	all := map[string][]string{}
	for _, address := range tlsServers(s.bed) {
		cert, err := s.certificateOf(address)
		if err != nil {
			return nil, err
		}
		all[address] = []string{cert.SerialNumber.Text(16)}
	}
	// The leader asks all others for their counts; they send it requests all the time.
	if _, err := s.bed.Netctl(s.ctx, "security", "report"); err != nil {
		return nil, err
	}
	for _, n := range s.bed.Nodes {
		all["master/"+n.Name] = nil
	}
	for _, n := range s.bed.Nodes {
		text, err := os.ReadFile(n.LogFile("netmaster"))
		if err != nil {
			return nil, err
		}
		for _, line := range comes.FindAllSubmatch(text, -1) {
			serial, who := string(line[1]), string(line[2])
			all[who] = append(all[who], serial)
		}
	}
	return all, nil
}

// comes matches a line of a netmaster's log about the certificate that a client presents.
var comes = regexp.MustCompile(`(?m) msg="a netmaster comes with another certificate" certificate=([0-9a-f]+) .* who=(\S+)$`)
