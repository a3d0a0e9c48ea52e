package install

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// An installation with one netmaster gets two more by the commands of the page.
func TestOneNetmasterBecomesThree(t *testing.T) {
	inCluster(t, cluster.Config{Nodes: 3, Install: "one", ByHand: true}, []part{
		{"there is one", installation.one},
		{"the page adds two, and no packet is lost", installation.grow},
		{"it is closed", installation.closed},
		{"the first may go", installation.withoutTheFirst},
	})
}

func (i installation) one() {
	i.patched("one")
	i.patched("three")
	i.kubectl("apply", "--kustomize", i.Installation("one"))
	i.must(i.Settle(i.Context()))
	i.netctl("tenant", "create", "before")
}

// grow adds netmasters while pods talk.
func (i installation) grow() {
	client, server := i.pod("client", 1), i.pod("server", 2)
	i.must(server.Echo())
	s, err := client.During(i.Context(), server.IP, func() error {
		i.kubectl("label", "node", "node2", "node3", "node-role.kubernetes.io/control-plane=")
		i.follow(growing)
		return nil
	})
	i.must(err)
	i.Logf("%d datagrams, %d lost, longest gap %.0f ms, %d late", s.Sent, s.Lost, s.MaxGapMS, s.Late)
	if s.Lost > 0 || s.Sent == 0 {
		i.Errorf("of %d datagrams %d were lost: %+v", s.Sent, s.Lost, s.Losses)
	}
	if said := i.netctl("tenant", "ls"); !strings.Contains(said, "before") {
		i.Errorf("what there was is lost: %s", said)
	}
}

// withoutTheFirst has the machine of the first netmaster keep none: the other two are a majority.
func (i installation) withoutTheFirst() {
	i.soon(func(ctx context.Context) error {
		said, err := i.Kubectl(ctx, "--namespace", "kube-system", "exec", "deployment/contiv-netmaster", "--", "netctl", "check")
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return err
	})
	i.kubectl("label", "node", "node1", "node-role.kubernetes.io/control-plane-")
	i.kubectl("--namespace", "kube-system", "delete", "pods", "--selector", "app=contiv-netmaster", "--field-selector", "spec.nodeName=node1", "--timeout", shortly.String())
	i.pod("without-the-first", 2)
}
