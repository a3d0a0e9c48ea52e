package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/test/testbed"
)

// whatIsBrokenIsNamed breaks what the node of a pod has of others: its name servers, and its cable, and with that its
// session with the router outside.
func (s story) whatIsBrokenIsNamed(pod *testbed.Pod) {
	s.Helper()
	node := pod.Node
	resolver, err := node.Start("resolver", pod.Probe(), "resolver", "-listen", "127.0.0.7:53", "www.example.org=192.0.2.7")
	s.must(err)
	s.afterwards(func(context.Context) error { return resolver.Kill() })
	s.resolves(node, "127.0.0.7")
	s.soon(shortly, func() error { return told(s, pod, "192.0.2.7", "www.example.org") })
	s.checksAll()

	// Somebody else's name server is not the node's fault, and is named.
	s.resolves(node, "127.0.0.77")
	s.soon(shortly, func() error { return told(s, pod, "SERVFAIL", "no.example.org") })
	s.checks(node, "names", true, "name server 127.0.0.77:53")
	s.resolves(node, "127.0.0.7")
	s.soon(shortly, func() error { return told(s, pod, "NXDOMAIN", "no.example.org") })

	port := s.bed.Outside.Port(node, 1)
	_, err = s.bed.Outside.Run(s.ctx, "ip", "link", "set", port, "down")
	s.must(err)
	s.checks(node, "uplinks", false, testbed.UplinkName(1))
	s.checks(node, "bgp", false, fmt.Sprintf("no session with %s of AS %d", routerAddress, routerAS))
	s.checks(s.otherThan(node), "uplinks", true, testbed.UplinkName(1))
	_, err = s.bed.Outside.Run(s.ctx, "ip", "link", "set", port, "up")
	s.must(err)
	s.checksAll()
}

// checksAll expects that netctl soon finds all well, and has looked at what the story breaks.
func (s story) checksAll() {
	s.Helper()
	s.soon(shortly, func() error {
		out, err := s.bed.Netctl(s.ctx, "check")
		for _, what := range []string{"uplinks", "bgp", "names"} {
			if err == nil && !strings.Contains(out, "ok    "+what+" "+s.bed.Nodes[0].Name) {
				err = fmt.Errorf("nothing of %s", what)
			}
		}
		if err != nil {
			err = fmt.Errorf("netctl check: %w %s", err, out)
		}
		return err
	})
}

// resolves has a node ask a name server for what nobody here knows, until the story is over.
func (s story) resolves(n *testbed.Node, server string) {
	s.Helper()
	old, err := n.Run(s.ctx, "sh", "-ec", `cat /etc/resolv.conf; echo "nameserver $1" > /etc/resolv.conf`, "sh", server)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := n.Run(ctx, "sh", "-ec", `printf %s "$1" > /etc/resolv.conf`, "sh", old)
		return err
	})
}

// checks expects that netctl soon finds something of a node well or not, and says so.
func (s story) checks(n *testbed.Node, what string, well bool, says string) {
	s.Helper()
	s.soon(shortly, func() error {
		out, failed := s.bed.Netctl(s.ctx, "check", "-o", "json")
		var all []struct {
			Name, Detail, Hint string
			OK                 bool
		}
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			return fmt.Errorf("netctl check: %w %w", err, failed)
		}
		for _, r := range all {
			if r.Name == what+" "+n.Name && r.OK == well && strings.Contains(r.Detail, says) && (well || r.Hint != "" && failed != nil) {
				return nil
			}
		}
		return fmt.Errorf("want %s of %s well: %v, and %q, got %s %w", what, n.Name, well, says, out, failed)
	})
}
