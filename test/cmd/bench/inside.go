package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/testbed"
)

// inside are the measurements made by a client on the leader's own node, by their argument there.
var inside = map[string]func(context.Context, *site) ([]figure, error){
	"endpoints": measureEndpoints,
	"dryrun":    measureDryRun,
	"beside":    measureApplyBeside,
	"wide":      fillWide,
	"reconcile": measureReconcile,
	"elsewhere": fillElsewhere,
	"apply":     measureApply,
	"list":      measureList,
	"growth":    measureGrowth,
	"fill":      fillMemory,
	"gatefill":  fillGate,
	"price":     measurePrice,

	"kubeleader": measureKubeLeader,
	"kubenode":   measureKubeNode,
}

// insideLeader returns a measurement that runs one of them.
func insideLeader(name string) func(context.Context, *testbed.Bed) ([]figure, error) {
	return func(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
		leader, err := bed.Leader(ctx)
		if err != nil {
			return nil, err
		}
		files := leader.StoreFiles()
		out, err := leader.Run(ctx, leader.Tool("bench"), "inside", "-netmaster", leader.NetmasterURL(),
			"-etcd", leader.StoreURL(), "-etcd-ca", files.CA, "-etcd-cert", files.Cert, "-etcd-key", files.Key, name)
		if err != nil {
			return nil, err
		}
		var figures []figure
		if err := json.Unmarshal([]byte(out), &figures); err != nil {
			return nil, fmt.Errorf("%q: %w", out, err)
		}
		return figures, nil
	}
}

// siteTime limits one request.
const siteTime = time.Minute

// site has the clients of a measurement inside: of netmaster, and of its store.
type site struct {
	*client.Client
	db   *objdb.DB
	url  string
	http *http.Client
}

func newSite(netmaster string, etcd objdb.Config) (*site, error) {
	rest, err := client.New(client.Config{URLs: []string{netmaster}, Timeout: siteTime})
	if err != nil {
		return nil, err
	}
	db, err := objdb.Open(etcd)
	if err != nil {
		rest.Close()
		return nil, err
	}
	network, address := "tcp", strings.TrimPrefix(netmaster, "http://")
	if socket, local := strings.CutPrefix(netmaster, "unix://"); local {
		network, address, netmaster = "unix", socket, "http://localhost"
	}
	byLoad := &transport{dial: func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, address) }}
	return &site{rest, db, netmaster, &http.Client{Transport: byLoad}}, nil
}

func (s *site) close() {
	s.Close()
	s.http.CloseIdleConnections()
	s.db.Close()
}

// runInside runs a measurement for insideLeader.
func runInside(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("inside", flag.ContinueOnError)
	netmaster := flags.String("netmaster", "", "URL of netmaster")
	etcd := objdb.Config{Endpoints: []string{""}}
	flags.StringVar(&etcd.Endpoints[0], "etcd", "", "URL of etcd")
	flags.StringVar(&etcd.CAFile, "etcd-ca", "", "its authorities")
	flags.StringVar(&etcd.CertFile, "etcd-cert", "", "certificate to show it")
	flags.StringVar(&etcd.KeyFile, "etcd-key", "", "its key")
	if err := flags.Parse(args); err != nil {
		return err
	}
	measure := inside[flags.Arg(0)]
	if measure == nil {
		return fmt.Errorf("no measurement %q", flags.Arg(0))
	}
	s, err := newSite(*netmaster, etcd)
	if err != nil {
		return err
	}
	defer s.close()
	figures, err := measure(ctx, s)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(figures)
}

// post sends a request to a route outside of the object model.
func (s *site) post(ctx context.Context, path string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	_, err = s.do(ctx, http.MethodPost, path, bytes.NewReader(data))
	return err
}

// do sends a request and returns the length of the response.
func (s *site) do(ctx context.Context, method, path string, body io.Reader) (size int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, body)
	if err != nil {
		return 0, err
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, answer)
	}
	return len(answer), err
}

// remove reverts an apply.
func (s *site) remove(ctx context.Context, operations []client.Operation) error {
	inverse := make([]client.Operation, len(operations))
	for i, o := range operations {
		inverse[i] = client.Operation{Op: contivmodel.OpDelete, Type: o.Type, Key: o.Key}
	}
	_, err := s.Apply(ctx, inverse, false)
	return err
}

// prepare applies a few objects for a measurement, and returns a function that removes them.
func (s *site) prepare(ctx context.Context, objects ...contivmodel.Object) (undo func(context.Context) error, err error) {
	operations := make([]client.Operation, len(objects))
	for i, o := range objects {
		operations[i] = client.ToApply(o)
	}
	_, err = s.Apply(ctx, operations, false)
	return func(ctx context.Context) error { return s.remove(ctx, operations) }, err
}

// spread calls operation n times from a number of clients, and returns the rate per second.
func spread(ctx context.Context, clients, n int, operation func(ctx context.Context, i int) error) (float64, error) {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	started := time.Now()
	for range clients {
		g.Go(func() error {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := operation(ctx, i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	return float64(n) / time.Since(started).Seconds(), err
}

// timed returns how long work takes.
func timed(work func() error) (time.Duration, error) {
	started := time.Now()
	err := work()
	return time.Since(started), err
}

func median[T float64 | time.Duration](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
