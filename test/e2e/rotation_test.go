package e2e

import (
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	// leafLife is how long certificates are good for here; they are renewed after half of it.
	leafLife = 20 * time.Second
	// renewals are awaited of each certificate, and as many steps as replace the authorities.
	renewals = 10
)

// TestLongCertificatesAreReplacedUnderLife has certificates of seconds in a cluster whose nodes
// reach the state through netmasters, and then other authorities, while pods come and go, endpoints
// are made through each netmaster, tenants are watched at each, and datagrams pass. No request fails,
// no watch ends, no datagram is lost and no process is another one at the end.
func TestLongCertificatesAreReplacedUnderLife(t *testing.T) {
	testkit.TakesLong(t)
	t.Setenv("CONTIV_NETMASTER_LEAF_LIFE", leafLife.String())
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 3, Secure: true, First: true})
	startDaemons(t, ctx, bed, "--netmasters", "https://"+bed.Nodes[0].MgmtIP+":9999")
	s := story{t, ctx, bed}
	s.tenant("blue")
	s.network("blue", "front", "10.1.0.0/16")
	here, there := s.pod(1, "here", "blue", "front", ""), s.pod(2, "there", "blue", "front", "")
	s.reachEachOther(shortly, here, there)

	report := s.whileFlowing([]flow{{name: "old", from: here, to: there.IP}, {name: "fresh", from: there, to: here.IP, fresh: true}}, func() {
		life := s.live("blue", "front")
		shown := newShown(bed)
		s.soon(renewals*leafLife, func() error { return shown.renewed(s, renewals) })
		for _, step := range []string{"add", "switch", "drop"} {
			s.soon(2*leafLife+time.Minute, func() error {
				out, err := bed.Netctl(ctx, "security", "rotate-ca")
				if err == nil && !strings.HasPrefix(out, "Step "+step+" is done") {
					t.Errorf("want step %s: %s", step, out)
				}
				return err
			})
			t.Logf("step %s is done", step)
		}
		shown = newShown(bed)
		s.soon(3*leafLife, func() error { return shown.renewed(s, 2) })
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

// shown is which certificates the servers of a cluster have shown, by address.
type shown map[string][]string // serial numbers, in their order

// newShown begins with none.
func newShown(bed *testbed.Bed) shown {
	all := shown{}
	for _, n := range bed.Nodes {
		all[n.MgmtIP+":9999"], all[n.MgmtIP+":9090"] = nil, nil
	}
	return all
}

// renewed looks at what each server shows now, and tells which has not had so many renewals yet.
func (all shown) renewed(s story, times int) error {
	var behind []string
	for address, serials := range all {
		conn, err := s.bed.Nodes[0].DialContext(s.ctx, "tcp", address)
		if err != nil {
			return err
		}
		secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // who it is does not matter here
		err = secured.HandshakeContext(s.ctx)
		if err == nil {
			if serial := secured.ConnectionState().PeerCertificates[0].SerialNumber.String(); !slices.Contains(serials, serial) {
				serials = append(serials, serial)
				all[address] = serials
			}
		}
		if closed := secured.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
		if len(serials) <= times {
			behind = append(behind, fmt.Sprintf("%s: %d", address, len(serials)-1))
		}
	}
	if len(behind) > 0 {
		return fmt.Errorf("renewals so far: %s", strings.Join(behind, ", "))
	}
	return nil
}
