package install

import (
	"context"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// One netmaster, and nodes that get Open vSwitch in pods.
func TestInstallationWithTheSwitch(t *testing.T) {
	inCluster(t, cluster.Config{Nodes: 2, Install: "one", Switch: true}, []part{
		{"pods reach each other", installation.reach},
		{"a switch that is replaced comes back with all flows", installation.newSwitch},
		{"a removal leaves clean nodes", installation.removalWithSwitch},
	})
}

// reach has a pod get answers of one on another node.
func (i installation) reach() { i.exchange(i.pod("client", 1), i.pod("server", 2)) }

func (i installation) exchange(client, server *cluster.Pod) {
	i.Helper()
	i.soon(func(ctx context.Context) error {
		_, err := client.Run(ctx, "ping", "-c", "3", "-i", "0.2", "-W", "1", server.IP)
		return err
	})
}

// newSwitch deletes the pod of a node's switch, as an upgrade does: traffic is interrupted, and goes on.
func (i installation) newSwitch() {
	client, server := i.pod("client2", 1), i.pod("server2", 2)
	i.kubectl("--namespace", "kube-system", "delete", "pod", "--selector", "app=contiv-ovs", "--field-selector", "spec.nodeName=node2", "--timeout", shortly.String())
	i.must(i.AwaitSwitches(i.Context()))
	i.must(i.Nodes[1].JoinTunnels(i.Context())) // its address went with the switch
	i.exchange(client, server)
	i.must(i.AwaitInstalled(i.Context()))
	i.exchange(client, i.pod("later", 2))
}

func (i installation) removalWithSwitch() {
	i.withoutPods()
	i.kubectl("delete", "--kustomize", i.Installation("here"))
	i.kubectl("apply", "--kustomize", i.Installation("remove"))
	i.kubectl("--namespace", "kube-system", "rollout", "status", "daemonset/contiv-cleanup", "--timeout", shortly.String())
	i.kubectl("delete", "--kustomize", i.Installation("remove"))
	i.cleanNodes()
	i.kubectl("delete", "--kustomize", i.Installation("ovs"))
}
