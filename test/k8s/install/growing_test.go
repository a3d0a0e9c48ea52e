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
		{"the page has the store's values encrypted, and no packet is lost", installation.encrypt},
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
	i.withoutLoss("grow", func() {
		i.kubectl("label", "node", "node2", "node3", "node-role.kubernetes.io/control-plane=")
		i.follow(growing)
	})
	if said := i.netctl("tenant", "ls"); !strings.Contains(said, "before") {
		i.Errorf("what there was is lost: %s", said)
	}
}

// encrypt follows the page until all values are encrypted, which netmasters and nodes read on: a pod that starts is placed and reached.
func (i installation) encrypt() {
	i.withoutLoss("encrypt", func() {
		i.follow(encrypting)
		i.soon(func(ctx context.Context) error {
			said, err := i.Kubectl(ctx, "--namespace", "kube-system", "exec", "deployment/contiv-netmaster", "--", "netctl", "security", "status")
			if err == nil && !strings.Contains(said, "Values:   sealed") {
				err = fmt.Errorf("netctl security status: %s", said)
			}
			return err
		})
		i.pod("encrypted", 3)
	})
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
