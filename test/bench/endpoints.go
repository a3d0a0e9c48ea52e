package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testbed"
)

const (
	endpointClients = 16
	endpointCount   = 8000 // per run: a few seconds
	endpointRounds  = 3    // runs of each side, in turns; the median counts
	recordSize      = 420  // bytes of an endpoint's record in the store
)

// rate is what a load prints: operations per second.
type rate struct {
	PerSecond float64 `json:"perSecond"`
}

// benchEndpoints compares createEndpoint through REST on the leader with
// guarded single-key transactions on the same etcd, at the same concurrency.
func benchEndpoints(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	err := netctlAll(ctx, bed,
		[]string{"tenant", "create", "load"},
		[]string{"network", "create", "-t", "load", "-s", "10.32.0.0/16", "-g", "10.32.255.254", "net"})
	if err != nil {
		return nil, err
	}
	leader, err := bed.Leader(ctx)
	if err != nil {
		return nil, err
	}
	var ours, raw []float64
	for round := range endpointRounds {
		r, err := runLoad(ctx, leader, "load-etcd", "-endpoints", "http://"+leader.MgmtIP+":2379")
		if err != nil {
			return nil, err
		}
		raw = append(raw, r)
		r, err = runLoad(ctx, leader, "load-endpoints", "-url", "http://"+leader.MgmtIP+":9999", "-round", strconv.Itoa(round))
		if err != nil {
			return nil, err
		}
		ours = append(ours, r)
	}
	ratio := median(ours) / median(raw)
	return []figure{{
		name:      fmt.Sprintf("createEndpoint, %d clients", endpointClients),
		value:     fmt.Sprintf("%.0f/s", median(ours)),
		reference: fmt.Sprintf("etcd transactions %.0f/s", median(raw)),
		ratio:     fmt.Sprintf("%.2f", ratio),
		goal:      "at least 0.25",
		met:       ratio >= 0.25,
	}}, nil
}

func runLoad(ctx context.Context, n *testbed.Node, load string, args ...string) (float64, error) {
	out, err := n.Run(ctx, append([]string{n.Tool("bench"), load}, args...)...)
	if err != nil {
		return 0, err
	}
	var r rate
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return 0, fmt.Errorf("%s: %q: %w", load, out, err)
	}
	return r.PerSecond, nil
}

// loadEndpoints creates endpoints through REST, then deletes them unmeasured.
func loadEndpoints(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load-endpoints", flag.ContinueOnError)
	url := flags.String("url", "", "netmaster's address")
	round := flags.Int("round", 0, "makes the endpoints' names distinct")
	if err := flags.Parse(args); err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: endpointClients}, Timeout: 30 * time.Second}
	post := func(path string, body any) error {
		data, err := json.Marshal(body)
		if err != nil {
			return err
		}
		res, err := client.Post(*url+path, "application/json", bytes.NewReader(data))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s: %s", path, res.Status, text)
		}
		return err
	}
	container := func(i int) string { return fmt.Sprintf("load-%d-%d", *round, i) }
	elapsed, err := spread(ctx, func(i int) error {
		return post(mastercfg.CreateEndpointPath, mastercfg.CreateEndpointRequest{
			TenantName: "load", NetworkName: "net", EndpointID: container(i),
			ConfigEP: mastercfg.ConfigEP{Container: container(i), Host: "loadhost"},
		})
	})
	if err != nil {
		return err
	}
	if _, err := spread(ctx, func(i int) error {
		return post(mastercfg.DeleteEndpointPath, mastercfg.DeleteEndpointRequest{
			TenantName: "load", NetworkName: "net", EndpointID: container(i),
		})
	}); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rate{endpointCount / elapsed.Seconds()})
}

// loadEtcd writes records by transactions that each guard and put one key.
func loadEtcd(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("load-etcd", flag.ContinueOnError)
	endpoints := flags.String("endpoints", "", "etcd URLs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	db, err := objdb.Open(objdb.Config{Endpoints: strings.Split(*endpoints, ",")})
	if err != nil {
		return err
	}
	defer db.Close()
	value := bytes.Repeat([]byte("x"), recordSize)
	key := func(i int) string { return fmt.Sprintf("/contiv.io/bench/%d", i) }
	elapsed, err := spread(ctx, func(i int) error {
		_, ok, err := db.Txn(ctx, objdb.Txn{If: []objdb.Guard{objdb.Absent(key(i))}, Puts: []objdb.KV{{Key: key(i), Value: value}}})
		if err == nil && !ok {
			err = fmt.Errorf("%s is there already", key(i))
		}
		return err
	})
	if err != nil {
		return err
	}
	if _, err := spread(ctx, func(i int) error {
		_, _, err := db.Txn(ctx, objdb.Txn{Deletes: []string{key(i)}})
		return err
	}); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(rate{endpointCount / elapsed.Seconds()})
}

// spread runs an operation endpointCount times by endpointClients workers.
func spread(ctx context.Context, operation func(i int) error) (time.Duration, error) {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	started := time.Now()
	for range endpointClients {
		g.Go(func() error {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= endpointCount {
					return nil
				}
				if err := operation(i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	return time.Since(started), err
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
