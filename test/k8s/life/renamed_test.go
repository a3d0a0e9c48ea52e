package life

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testkit"
)

// renamed: a port of a service must get a name when a second one is added. New flows at that moment are answered,
// too, though the service has the name before its slices have it. It is the service "to", with a port of UDP.
func renamed(t *testing.T, c *cluster.Cluster, from *cluster.Pod, address string) {
	t.Helper()
	echo, more := object{"port": cluster.EchoPort, "protocol": "UDP"}, object{"name": "more", "port": podPort}
	called := func(name string) object {
		return object{"name": name, "port": cluster.EchoPort, "protocol": "UDP"}
	}
	sender := cluster.Sender{Name: "from-anew", Node: from.Node, Start: from.Start}
	stream, err := sender.During(t.Context(), net.JoinHostPort(address, fmt.Sprint(cluster.EchoPort)), func() error {
		for _, ports := range [][]object{{called("first"), more}, {called("other"), more}, {called("first"), more}, {echo}} {
			patch, err := json.Marshal(object{"spec": object{"ports": ports}})
			if err != nil {
				return err
			}
			if _, err := c.Kubectl(t.Context(), "patch", "service", "to", "--type=merge", "--patch", string(patch)); err != nil {
				return err
			}
			if err := testkit.Poll(t.Context(), func() error { return slicesHave(t.Context(), c, ports) }); err != nil {
				return err
			}
		}
		return nil
	}, "-fresh", "-interval", "2ms")
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d datagrams of as many senders, %d lost, %d not sent in time", stream.Sent, stream.Lost, stream.Late); stream.Lost > 0 || stream.Sent == 0 {
		t.Errorf("of %d datagrams that began anew, %d were lost: %+v", stream.Sent, stream.Lost, stream.Losses)
	}
}

// slicesHave returns an error until the slices of the service have the names of its ports.
func slicesHave(ctx context.Context, c *cluster.Cluster, ports []object) error {
	var want []string
	for _, p := range ports {
		name, _ := p["name"].(string)
		want = append(want, name+";")
	}
	out, err := c.Kubectl(ctx, "get", "endpointslices", "--selector", "kubernetes.io/service-name=to", "--output", `jsonpath={range .items[*].ports[*]}{.name}{";"}{end}`)
	got := strings.SplitAfter(out, ";")
	if got = got[:len(got)-1]; err == nil && !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		err = fmt.Errorf("slices have ports %q, want %q", got, want)
	}
	return err
}
