package life

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// powerOff ends the processes of a node at once, and removes what a start of the machine would: network
// namespaces, links, the content of /run. Disks stay, and with them the ports in Open vSwitch's database. The
// store is elsewhere.
const powerOff = `
for p in /proc/[0-9]*; do
  pid=${p#/proc/}
  case $pid:$(cat $p/comm 2>/dev/null) in 1:*|$$:*|*:etcd|*:netmaster) ;; *) kill -9 $pid 2>/dev/null || : ;; esac
done
for f in /run/netns/cni-*; do umount $f; rm $f; done
for l in $(ls /sys/class/net | grep -E '^(vvport|contivh)'); do ip link delete $l 2>/dev/null || : ; done
grep -oE ' /run/containerd/[^ ]*' /proc/mounts | sort -r | while read -r m; do umount -l $m; done
rm -rf /run/containerd/* /run/openvswitch/*`

// counted is how much there is of what pods have.
func counted(ctx context.Context, c *cluster.Cluster, n *testbed.Node) (string, error) {
	out, err := n.Run(ctx, "sh", "-ec", `for what in "$(ovs-vsctl --timeout=10 list-ports contivVxlanBridge | grep vvport)" "$(ls /sys/class/net | grep vvport)" \
"$(ls /run/netns | grep cni-)" "$(ls /var/lib/contiv/cni/*.json)"; do echo "$what" | grep -c . || : ; done`)
	if err != nil {
		return "", err
	}
	keys, err := c.Keys(ctx, "/contiv.io/state/eps/")
	return fmt.Sprintf("ports, links, namespaces, attachments %q, %d endpoints", strings.Fields(out), strings.Count(keys, "/eps/")), err
}

// lostDatabase is also lost if Open vSwitch keeps its database in memory, or the disk is new.
const lostDatabase = `
rm -rf /etc/openvswitch/*
find /run/contiv -mindepth 1 ! -name 'netmaster*' -delete`

// The pods of a node that was switched off and on again return, and nothing is left of their former selves; also
// if the switch has lost its database.
func TestPodsOfANodeThatStartsAgain(t *testing.T) {
	c, api := up(t, 2)
	n := c.Nodes[1]
	ctx, cancel := context.WithTimeout(t.Context(), 2*podLimit)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	soon := func(try func() error) {
		t.Helper()
		must(testkit.Poll(ctx, try))
	}
	var names []string
	for i, hostPort := range []int{0, 20001, 20002, 0, 0} {
		names = append(names, fmt.Sprint("pod-", i))
		must(create(ctx, api, names[i], n.Name, hostPort))
	}
	for _, name := range names {
		soon(func() error { return attached(get(ctx, api, name)) })
	}
	// Its own pods count, too, and may take longer to start than ours.
	_, err := c.Kubectl(ctx, "--namespace", "kube-system", "rollout", "status", "deployment/coredns")
	must(err)
	before, err := counted(ctx, c, n)
	must(err)
	for _, loses := range []string{"", lostDatabase} {
		former := map[string]checkpoint{}
		for _, name := range names {
			former[name], err = sandbox(ctx, n, name)
			must(err)
		}

		_, _ = n.Run(ctx, "sh", "-c", powerOff+loses) // it may end with what it ends
		must(n.StartOVS(ctx))
		must(n.JoinTunnels(ctx)) // its link is a port of the machine's own bridge
		must(c.StartContainerd(ctx, n))
		must(c.StartKubelet(n))
		must(n.StartNetplugin()) // last: kubelet requests sandboxes before it runs
		for _, name := range names {
			soon(func() error {
				now, err := sandbox(ctx, n, name)
				if err == nil && (now.ContainerID == former[name].ContainerID || now.State != "ready") {
					err = fmt.Errorf("%s has no new sandbox yet: %+v", name, now)
				}
				return err
			})
		}
		soon(func() error {
			after, err := counted(ctx, c, n)
			if err == nil && after != before {
				err = fmt.Errorf("%s; before: %s", after, before)
			}
			return err
		})
		first, err := sandbox(ctx, n, names[0])
		must(err)
		soon(func() error {
			p, err := get(ctx, api, names[1])
			if err == nil {
				_, err = n.Run(ctx, "nsenter", "--net="+first.Netns, "ping", "-c", "1", "-W", "1", p.Status.PodIP)
			}
			if err == nil {
				_, err = c.Nodes[0].Run(ctx, "ping", "-c", "1", "-W", "1", p.Status.PodIP)
			}
			return err
		})
	}
}
