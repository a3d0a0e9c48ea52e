package e2e

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// Nodes that have joined reach the state through netmasters only. Pods are attached and reach each other, also
// after the netmaster that the nodes were configured with is killed. Neither nodes nor netmasters notice that all
// values in the store are encrypted.
func TestNodesReachTheStateThroughNetmasters(t *testing.T) {
	t.Parallel()
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 3, Secure: true, Sealed: true})
	founder := bed.Nodes[0]
	startDaemons(t, ctx, bed, "--netmasters", "https://"+founder.MgmtIP+":9999") // the others are found in the registry
	alike := t.Run("pods are attached, whichever netmaster is there", func(t *testing.T) {
		playOn(t, bed, func(s story) {
			s.tenant("blue")
			s.network("blue", "net", "10.1.0.0/24")
			a, b := s.pod(0, "a", "blue", "net", ""), s.pod(1, "b", "blue", "net", "")
			s.reachEachOther(shortly, a, b)
			s.traces(a, b)
			for _, n := range bed.Nodes {
				s.must(s.reachesNetmastersOnly(n))
			}
			for _, n := range bed.Nodes {
				s.soon(time.Minute, func() error { // each reads the registry, the last time up to 20 s ago
					known, err := n.Run(s.ctx, "cat", "/var/lib/contiv/pki/netmasters")
					if err == nil && strings.Count(known, "https://") != 2 {
						err = fmt.Errorf("netmasters that %s knows beside the first: %q", n.Name, known)
					}
					return err
				})
			}
			s.must(founder.Netmaster().Kill())
			c := s.pod(2, "c", "blue", "net", "")
			s.reachEachOther(shortly, a, b, c)
			s.must(s.reachesNetmastersOnly(bed.Nodes[2]))
			s.must(founder.StartNetmaster())
			s.valuesAreSealed()
		})
	})
	if alike {
		story{t, ctx, bed}.removed(bed.Nodes[2])
	}
}

// valuesAreSealed expects that the cluster reports encrypted values, and that a reader of the store without keys
// gets a clear error.
func (s story) valuesAreSealed() {
	s.Helper()
	s.soon(time.Minute, func() error {
		status, err := s.bed.Netctl(s.ctx, "security", "status")
		if err == nil && !strings.Contains(status, "Values:   sealed") {
			err = fmt.Errorf("security status: %s", status)
		}
		return err
	})
	n := s.bed.Nodes[0]
	files := n.StoreFiles()
	stored, err := n.Run(s.ctx, n.Tool("probe"), "keys", "-ca", files.CA, "-cert", files.Cert, "-key", files.Key, n.StoreURL(), "/contiv.io/state/")
	if err == nil || !strings.Contains(err.Error(), "--encrypt-values") {
		s.Errorf("who has no keys reads %q, %v", stored, err)
	}
}

// removed removes a node for good, and expects that its agent is not registered, and attaches nothing, from then on.
func (s story) removed(n *testbed.Node) {
	s.Helper()
	_, err := n.Run(s.ctx, "rm", "/run/contiv/token-node")
	s.must(err)
	s.soon(time.Minute, func() error { // the netmaster that was killed may lead
		_, err := s.bed.Netctl(s.ctx, "node", "rm", n.Name)
		return err
	})
	s.soon(time.Minute, func() error { // its lease ends
		entries, err := s.bed.Keys(s.ctx, "/contiv.io/service/")
		if err == nil && (strings.Contains(entries, "netplugin/"+n.MgmtIP+":") || strings.Contains(entries, "netplugin.vtep/"+n.VTEPIP+":")) {
			err = fmt.Errorf("%s is registered: %s", n.Name, entries)
		}
		return err
	})
	if err := s.sandbox(2, "late", "default", "default-net", "").Attach(s.ctx); err == nil {
		s.Errorf("%s attaches pods", n.Name)
	}
}

// reachesNetmastersOnly returns an error unless the agent of a node is connected to a netmaster, and not to etcd.
func (s story) reachesNetmastersOnly(n *testbed.Node) error {
	peers, err := n.Run(s.ctx, "sh", "-ec", `ss -Htnp state established | grep '"netplugin"' | awk '{print $4}'`)
	if err != nil {
		return err
	}
	var ports []string
	for peer := range strings.FieldsSeq(peers) {
		if _, port, err := net.SplitHostPort(peer); err == nil {
			ports = append(ports, port)
		}
	}
	if !slices.Contains(ports, "9999") || slices.Contains(ports, "2379") || slices.Contains(ports, "2380") {
		return fmt.Errorf("netplugin of %s is connected to %q", n.Name, strings.Fields(peers))
	}
	return nil
}
