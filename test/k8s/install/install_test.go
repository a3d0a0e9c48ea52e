// Package install installs our daemons in a cluster by deploy/kubernetes, as users do by the
// commands of docs/kubernetes.md, replaces them under traffic, and takes them away again. It
// needs what `make k8s-build` and `make images` build, and minutes: `make e2e-k8s`.
package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/clustertest"
	"github.com/contiv/netplugin/test/testkit"
)

// shortly bounds what takes a moment on a machine that has other work, too.
const shortly = time.Minute

// installation is a cluster in which our daemons are pods.
type installation struct {
	*testing.T
	*cluster.Cluster
}

// part is something that a cluster is to stand.
type part struct {
	name string
	run  func(installation)
}

// inCluster runs parts in a cluster until one fails.
func inCluster(t *testing.T, cfg cluster.Config, parts []part) {
	t.Helper()
	c := clustertest.Up(t, cfg, false)
	for _, p := range parts {
		if !t.Run(p.name, func(t *testing.T) { p.run(installation{t, c}) }) {
			break
		}
	}
}

func TestInstallation(t *testing.T) {
	inCluster(t, cluster.Config{Nodes: 3, Install: "three", ByHand: true}, []part{
		{"the API server takes every manifest", installation.dryRun},
		{"the page says how to install", installation.byThePage},
		{"it is closed", installation.closed},
		{"a stolen key of a node opens no more than the node's pods", installation.stolenKey},
		{"a rolling update loses nothing", installation.rollingUpdates},
		{"the page says how to upgrade", installation.upgradeByThePage},
		{"a node and a netmaster without their keys come back", installation.lostKeys},
		{"a netmaster without its data comes back by the page", installation.lostMember},
		{"a configuration that somebody removes is back", installation.configurationIsKept},
		{"a new node takes pods when its agent is ready", installation.startupTaint},
		{"the page says where to look", installation.lookAround},
		{"what is granted is used and nothing else is asked for", installation.rights},
		{"a removal by the page leaves clean nodes", installation.removal},
	})
}

func (i installation) must(err error) {
	i.Helper()
	if err != nil {
		i.Fatal(err)
	}
}

func (i installation) kubectl(args ...string) string {
	i.Helper()
	out, err := i.Kubectl(i.Context(), args...)
	i.must(err)
	return out
}

// pod starts one on node number n.
func (i installation) pod(name string, n int) *cluster.Pod {
	i.Helper()
	p, err := i.StartPod(i.Context(), name, i.Nodes[n-1])
	i.must(err)
	return p
}

// withoutLoss does something while two pods talk, whose names begin alike.
func (i installation) withoutLoss(names string, do func()) {
	i.Helper()
	client, server := i.pod(names+"-client", 1), i.pod(names+"-server", 2)
	i.must(server.Echo())
	i.must(client.Hears(i.Context(), server.IP))
	s, err := client.During(i.Context(), server.IP, func() error { do(); return nil })
	i.must(err)
	i.Logf("%d datagrams, %d lost, longest gap %.0f ms, %d late", s.Sent, s.Lost, s.MaxGapMS, s.Late)
	if s.Lost > 0 || s.Sent == 0 {
		i.Errorf("of %d datagrams %d were lost: %+v", s.Sent, s.Lost, s.Losses)
	}
}

func (i installation) dryRun() {
	for _, folder := range []string{"one", "three", "ovs", "remove"} {
		i.kubectl("apply", "--kustomize", i.Installation(folder), "--dry-run=server", "--validate=strict")
	}
}

func (i installation) rollingUpdates() {
	client, server := i.pod("client", 1), i.pod("server", 2)
	i.must(server.Echo())
	i.kubectl("expose", "pod", "server", "--protocol", "UDP", "--port", fmt.Sprint(cluster.EchoPort))
	service, err := i.Kubectl(i.Context(), "get", "service", "server", "-o", "jsonpath={.spec.clusterIP}")
	i.must(err)
	i.must(client.Hears(i.Context(), server.IP))
	i.must(client.Hears(i.Context(), service))
	for _, what := range []string{"daemonset/contiv-netplugin", "deployment/contiv-netmaster"} {
		var streams [2]cluster.Stream
		streams[0], err = client.During(i.Context(), server.IP, func() (err error) {
			streams[1], err = client.During(i.Context(), service, func() error {
				i.kubectl("--namespace", "kube-system", "rollout", "restart", what)
				return i.AwaitInstalled(i.Context())
			})
			return err
		})
		i.must(err)
		for at, where := range []string{"to a pod", "to a service"} {
			s := streams[at]
			i.Logf("%s, %s: %d datagrams, %d lost, longest gap %.0f ms, %d late", what, where, s.Sent, s.Lost, s.MaxGapMS, s.Late)
			if s.Lost > 0 || s.Sent == 0 {
				i.Errorf("%s, %s: of %d datagrams %d were lost: %+v", what, where, s.Sent, s.Lost, s.Losses)
			}
		}
	}
	i.kubectl("delete", "service", "server")
	i.pod("after", 3)
	i.kubectl("--namespace", "kube-system", "exec", "deployment/contiv-netmaster", "--", "netctl", "endpoint", "inspect", "default/after")
}

func (i installation) configurationIsKept() {
	n := i.Nodes[2]
	const file = "/etc/cni/net.d/05-contiv.conflist"
	before, err := n.Run(i.Context(), "stat", "-c", "%i %Y", file)
	i.must(err)
	if _, err := n.Run(i.Context(), "rm", file); err != nil {
		i.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(i.Context(), shortly)
	defer cancel()
	i.must(testkit.Poll(ctx, func() error {
		now, err := n.Run(ctx, "stat", "-c", "%i %Y", file)
		if err == nil && now == before {
			err = fmt.Errorf("%s was not removed", file)
		}
		return err
	}))
	i.kubectl("delete", "pod", "after", "--timeout", shortly.String())
	i.pod("again", 3)
}

func (i installation) startupTaint() {
	i.kubectl("patch", "node", "node2", "--subresource=status", "--patch", `{"status": {"conditions": [{"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated"}]}}`)
	i.kubectl("wait", "node/node2", "--for=condition=NetworkUnavailable=False", "--timeout", shortly.String())
	i.kubectl("taint", "node", "node2", "node.contiv.io/agent-not-ready=:NoExecute")
	ctx, cancel := context.WithTimeout(i.Context(), shortly)
	defer cancel()
	i.must(testkit.Poll(ctx, func() error {
		taints, err := i.Kubectl(ctx, "get", "node", "node2", "-o", "jsonpath={.spec.taints}")
		if err == nil && taints != "" {
			err = fmt.Errorf("node2 has taints %s", taints)
		}
		return err
	}))
}

// soon tries until there is no error.
func (i installation) soon(try func(ctx context.Context) error) {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), shortly)
	defer cancel()
	i.must(testkit.Poll(ctx, func() error { return try(ctx) }))
}

func (i installation) removal() {
	i.withoutPods()
	i.follow("Remove")
	i.cleanNodes()
}

// withoutPods deletes all that have a network of ours.
func (i installation) withoutPods() {
	i.kubectl("delete", "pods", "--all", "--timeout", shortly.String())
	i.kubectl("--namespace", "kube-system", "delete", "deployment", "coredns", "--cascade=foreground", "--timeout", shortly.String())
}

// kept is what stays on nodes of the control plane.
const kept = "/var/lib/contiv/etcd\n/var/lib/contiv/netmaster\n"

// cleanNodes waits until nothing of ours is on them, as ending processes take a moment.
func (i installation) cleanNodes() {
	i.soon(func(ctx context.Context) (err error) {
		for _, n := range i.Nodes {
			for what, command := range map[string]string{
				"bridges":    "ovs-vsctl --timeout=10 list-br | grep contiv",
				"links":      "ls /sys/class/net | grep -E '^(vvport|contiv|dns-)'",
				"namespaces": "ls /run/netns",
				"rules":      "nft list tables | grep contiv",
				"files":      "ls -d /run/contiv /opt/cni/bin/contivk8s /etc/cni/net.d/* /var/lib/contiv/*",
			} {
				out, _ := n.Run(ctx, "sh", "-c", command+" 2>/dev/null") // grep fails if there is nothing
				if left := strings.Fields(out); len(left) > 0 && !(what == "files" && out == kept) {
					err = errors.Join(err, fmt.Errorf("%s of %s are left: %q", what, n.Name, left))
				}
			}
		}
		return err
	})
}
