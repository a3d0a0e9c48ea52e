package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testkit"
)

// benchKubeProxy compares connections to a Kubernetes service between two pods of the project with those between
// two pods of the CNI project's ptp, whose service is implemented by kube-proxy in mode nftables, on the same
// node, alternating. The former pass the switch's userspace datapath if there is no kernel datapath, the latter
// the kernel.
func benchKubeProxy(ctx context.Context, c *cluster.Cluster) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, podLimit)
	defer cancel()
	n := c.Nodes[len(c.Nodes)-1]
	if _, err := c.StartProxy(n); err != nil {
		return nil, err
	}
	clients, addresses := map[side][]*cluster.Pod{}, map[side]string{} // one client per round, as in benchServices
	for _, s := range []side{ours, theirs} {
		if s == theirs {
			if err := c.Refer(ctx, n, "ptp"); err != nil {
				return nil, err
			}
		}
		server, err := startOf(ctx, c, s, "server")
		if err != nil {
			return nil, err
		}
		if _, err := server.Start("serve-"+server.Name, n.Tool("probe"), "serve", "-tcp", "80"); err != nil {
			return nil, err
		}
		for i := range serviceRounds {
			client, err := startOf(ctx, c, s, fmt.Sprint("client", i))
			if err != nil {
				return nil, err
			}
			clients[s] = append(clients[s], client)
		}
		if addresses[s], err = serviceOf(ctx, c, server); err != nil {
			return nil, err
		}
	}
	dial := func(s side, round int, seconds string) (float64, error) {
		client := clients[s][round]
		out, err := client.Run(ctx, n.Tool("probe"), "dial", "-to", addresses[s]+":80", "-for", seconds)
		if err != nil {
			return 0, err
		}
		return rateOf(client.Name, out)
	}
	rates := map[side][]float64{}
	for _, s := range []side{ours, theirs} {
		if err := testkit.Poll(ctx, func() error { // wait until its proxy knows the service
			_, err := dial(s, 0, "100ms")
			return err
		}); err != nil {
			return nil, err
		}
	}
	for round := range serviceRounds {
		for _, s := range []side{ours, theirs} {
			rate, err := dial(s, round, "2s")
			if err != nil {
				return nil, err
			}
			rates[s] = append(rates[s], rate)
		}
	}
	mine, reference := median(rates[ours]), median(rates[theirs])
	return []figure{{
		Name: "connections to a service of Kubernetes", Value: fmt.Sprintf("%.0f/s", mine), Reference: fmt.Sprintf("kube-proxy, nftables %.0f/s", reference),
		Ratio: fmt.Sprintf("%.2f", mine/reference), Goal: "at least 1.0", Met: mine >= reference,
	}}, nil
}

// startOf starts a pod of one side on the last node.
func startOf(ctx context.Context, c *cluster.Cluster, s side, what string) (p *cluster.Pod, err error) {
	tries := 0
	err = testkit.Poll(ctx, func() error { // the runtime reloads its configuration at some time
		name := fmt.Sprintf("%s-%.4s-%d", what, s, tries)
		tries++
		if p, err = c.StartPod(ctx, name, c.Nodes[len(c.Nodes)-1]); err == nil && strings.HasPrefix(p.IP, cluster.ReferenceAddresses) != (s == theirs) {
			err = fmt.Errorf("pod %s has %s, which is not an address of %s", name, p.IP, s)
		}
		return err
	})
	return p, err
}

// serviceOf creates a service for a pod, and returns its address.
func serviceOf(ctx context.Context, c *cluster.Cluster, server *cluster.Pod) (string, error) {
	api, err := c.API()
	if err != nil {
		return "", err
	}
	defer api.Close()
	type object = map[string]any
	var made struct{ Spec struct{ ClusterIP string } }
	err = api.Do(ctx, http.MethodPost, "/api/v1/namespaces/default/services", object{
		"apiVersion": "v1", "kind": "Service", "metadata": object{"name": server.Name},
		"spec": object{"selector": object{"run": server.Name}, "ports": []object{{"port": 80}}},
	}, &made)
	return made.Spec.ClusterIP, err
}

// rateOf returns the connections per second in the report of probe dial.
func rateOf(client, said string) (float64, error) {
	var report struct {
		Connections, Failed int
		Seconds             float64
		LastError           string
	}
	if err := json.Unmarshal([]byte(said), &report); err != nil {
		return 0, err
	}
	if report.Connections == 0 || report.Failed > report.Connections/100 { // those in progress at the end
		return 0, fmt.Errorf("%s: %d connections, %d failed, such as: %s", client, report.Connections, report.Failed, report.LastError)
	}
	return float64(report.Connections) / report.Seconds, nil
}
