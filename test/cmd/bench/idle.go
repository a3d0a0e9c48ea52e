package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

const (
	idleTime = 30 * time.Second
	idleGoal = 0.1 // reads per second and agent
)

// benchIdle counts the reads of the members of etcd while nothing happens, with the agents and without them; the
// difference is due to the agents.
func benchIdle(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	if err := quiet(ctx); err != nil {
		return nil, err
	}
	with, err := reads(ctx, bed)
	if err != nil {
		return nil, err
	}
	for _, n := range bed.Nodes {
		if err := n.Netplugin().Terminate(); err != nil {
			return nil, err
		}
	}
	without, err := reads(ctx, bed)
	if err != nil {
		return nil, err
	}
	for _, n := range bed.Nodes {
		if err := n.StartNetplugin(); err != nil {
			return nil, err
		}
		if err := n.WaitReady(ctx); err != nil {
			return nil, err
		}
	}
	each := max(0, with-without) / float64(len(bed.Nodes))
	return []figure{{
		Name: "idle agent, reads of etcd", Value: fmt.Sprintf("%.2f/s", each),
		Reference: fmt.Sprintf("%d netmasters without agents %.2f/s", len(bed.Nodes), without), Ratio: "-",
		Goal: fmt.Sprintf("at most %.1f/s", idleGoal), Met: each <= idleGoal,
	}}, nil
}

// reads returns the rate of range requests to the members of etcd, per second.
func reads(ctx context.Context, bed *testbed.Bed) (float64, error) {
	before, err := ranges(ctx, bed)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := ranges(ctx, bed)
	return (after - before) / time.Since(began).Seconds(), err
}

// ranges returns the number of Range calls that the members of etcd have answered. Transactions with reads are not
// counted; agents do not use them.
func ranges(ctx context.Context, bed *testbed.Bed) (float64, error) {
	return sumOfMembers(ctx, bed, `grpc_server_handled_total{grpc_code="OK",grpc_method="Range",grpc_service="etcdserverpb.KV",grpc_type="unary"}`)
}

// sumOfMembers returns the sum of a metric over the members of etcd. A member without it counts as zero: it had no
// such request.
func sumOfMembers(ctx context.Context, bed *testbed.Bed, metric string) (all float64, err error) {
	for _, n := range bed.Nodes {
		text, err := storeMetrics(ctx, n)
		if err != nil {
			return 0, err
		}
		_, rest, found := strings.Cut(text, "\n"+metric+" ")
		if !found {
			continue
		}
		value, _, _ := strings.Cut(rest, "\n")
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: metrics of etcd: %w", n.Name, err)
		}
		all += count
	}
	return all, nil
}

// storeMetrics returns the metrics of the etcd member on a node.
func storeMetrics(ctx context.Context, n *testbed.Node) (string, error) {
	conf, err := n.StoreFilesOutside().Client()
	if err != nil {
		return "", err
	}
	client := http.Client{Transport: &http.Transport{DialContext: n.DialContext, TLSClientConfig: conf, DisableKeepAlives: true}}
	return get(ctx, &client, n.StoreURL()+"/metrics")
}

// get returns the body of a successful response.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, resp.Status, text)
	}
	return string(text), err
}
