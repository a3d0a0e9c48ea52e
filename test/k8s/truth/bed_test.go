package truth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/images"
	"github.com/contiv/netplugin/test/k8s/netpol"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// bed is a cluster with the pods of a world.
type bed struct {
	*cluster.Cluster
	api      *cluster.API
	world    *netpol.World
	now      map[string]string // what the API server has, by path
	ends     []*end            // of the world's pods
	kept     []*probe          // whose connections go on
	probed   int
	redialed int // connections that were allowed, and needed more than one try
	again    int // exchanges that did not match the policies

	mu       sync.Mutex
	arrived  map[string]bool // words that servers got
	answered map[string]bool // and clients back
}

// makePods makes the pods of the world, three on each node, with addresses of both IP families.
func (b *bed) makePods(ctx context.Context) error {
	const network = "both"
	if _, err := b.Netctl(ctx, "network", "create", "--subnet", "10.200.0.0/16", "--gateway", "10.200.0.1",
		"--subnetv6", "fd00:200::/64", "--gatewayv6", "fd00:200::1", network); err != nil {
		return err
	}
	for _, name := range netpol.Namespaces {
		namespace := object{"metadata": object{"name": name, "annotations": object{"io.contiv.network": network}}}
		if err := b.api.Do(ctx, http.MethodPost, "/api/v1/namespaces", namespace, nil); err != nil {
			return err
		}
	}
	for i, p := range b.world.Pods {
		var ports []object
		for _, port := range p.Ports {
			ports = append(ports, object{"name": port.Name, "protocol": port.Protocol, "containerPort": port.ContainerPort})
		}
		pod := object{"metadata": object{"name": p.Name, "labels": p.Labels}, "spec": object{
			"nodeName": b.nodeOf(i).Name, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
			"containers": []object{{"name": "c", "image": images.Pause, "ports": ports}}}}
		if err := testkit.Poll(ctx, func() error { // a new namespace has no service account yet
			return b.api.Do(ctx, http.MethodPost, "/api/v1/namespaces/"+p.Namespace+"/pods", pod, nil)
		}); err != nil {
			return err
		}
	}
	for i := range b.world.Pods {
		if err := testkit.Poll(ctx, func() error { return b.find(ctx, i) }); err != nil {
			return err
		}
	}
	_, err := b.apply(ctx)
	return err
}

// nodeOf spreads the pods of each namespace, and those of each name.
func (b *bed) nodeOf(pod int) *testbed.Node { return b.Nodes[(pod+pod/3)%3] }

// find looks where a pod is, once it has its addresses, and has it serve.
func (b *bed) find(ctx context.Context, pod int) error {
	p, node := &b.world.Pods[pod], b.nodeOf(pod)
	var there struct{ Status struct{ PodIP string } }
	if err := b.api.Do(ctx, http.MethodGet, "/api/v1/namespaces/"+p.Namespace+"/pods/"+p.Name, nil, &there); err != nil {
		return err
	}
	if there.Status.PodIP == "" {
		return fmt.Errorf("pod %s/%s has no address yet", p.Namespace, p.Name)
	}
	out, err := node.Run(ctx, "sh", "-c", `for f in /run/netns/cni-*; do echo $f $(nsenter --net=$f ip -o address show dev eth0 scope global | awk '{print $4}'); done`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		words := strings.Fields(line)
		var addresses []netip.Addr
		for _, w := range words[1:] {
			prefix, err := netip.ParsePrefix(w)
			if err != nil {
				return err
			}
			addresses = append(addresses, prefix.Addr())
		}
		if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.String() == there.Status.PodIP }) {
			continue
		}
		if len(addresses) != 2 {
			return fmt.Errorf("pod %s/%s has addresses %v, want two", p.Namespace, p.Name, addresses)
		}
		e := &end{node: node, netns: words[0]}
		if err := b.serve(e); err != nil {
			return errors.Join(err, e.close())
		}
		p.Addresses, b.ends = addresses, append(b.ends, e)
		return nil
	}
	return fmt.Errorf("no network namespace on %s has %s: %s", node.Name, there.Status.PodIP, out)
}

// admits finds the flow by which connections go on that were admitted in an epoch, whose mark is not masked: those
// of services are.
var admits = regexp.MustCompile(`ct_state=\+est\+trk,ct_mark=(0x[0-9a-f]+),`)

// epoch is that of all switches.
func (b *bed) epoch(ctx context.Context) (epoch string, err error) {
	for i, n := range b.Nodes {
		out, err := n.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "dump-flows", "contivVxlanBridge")
		if err != nil {
			return "", err
		}
		found := admits.FindStringSubmatch(out)
		if found == nil {
			return "", fmt.Errorf("the switch of %s has no epoch", n.Name)
		}
		if i > 0 && found[1] != epoch {
			return "", fmt.Errorf("epoch %s on %s, %s on %s", epoch, b.Nodes[0].Name, found[1], n.Name)
		}
		epoch = found[1]
	}
	return epoch, nil
}

func (b *bed) close() {
	b.drop(b.kept)
	for _, e := range b.ends {
		e.close()
	}
}
