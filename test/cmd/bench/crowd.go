package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/membership"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/testkit"
)

// A crowd is a set of nodes, simulated as far as netmasters can see: each joins, opens connections, watches what
// an agent watches and is registered. It runs as "bench crowd URLS WHAT" and ends with its input.

// crowds are the kinds of crowds.
var crowds = map[string]func(c *crowd, ctx context.Context, in *bufio.Scanner, out io.Writer) error{
	"agents": (*crowd).agents,
	"direct": (*crowd).direct,
	"victim": (*crowd).victim,
	"thief":  (*crowd).thief,
}

// crowd is the common state of its nodes.
type crowd struct {
	masters []string // URLs; for nodes that access etcd directly, its members'
	dir     string
	token   string // file
	log     *logrus.Entry
}

func runCrowd(ctx context.Context, args []string, in io.Reader, out io.Writer) (err error) {
	if len(args) != 2 || crowds[args[1]] == nil {
		return fmt.Errorf("crowd %q: want the URLs of netmasters or of etcd, and what it is", args)
	}
	c := &crowd{masters: strings.Split(args[0], ","), log: testkit.Quiet()}
	if c.dir, err = os.MkdirTemp("/run", "crowd-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.dir)) }()
	c.token = filepath.Join(c.dir, "token")
	if err := os.WriteFile(c.token, []byte(os.Getenv("CONTIV_BENCH_TOKEN")), 0o600); err != nil {
		return err
	}
	return crowds[args[1]](c, ctx, bufio.NewScanner(in), out)
}

// gateHost returns the name of a simulated node.
func gateHost(number int) string { return fmt.Sprintf("gate%04d", number) }

// join makes a node a member of the cluster, and connects it to a netmaster.
func (c *crowd) join(ctx context.Context, host string, address netip.Addr) (*objdb.DB, *membership.Member, error) {
	m, err := c.enlist(ctx, host, address)
	if err != nil {
		return nil, nil, err
	}
	db, err := objdb.Open(objdb.Config{Endpoints: c.masters, OneAtATime: true, Log: c.log, RequestTimeout: siteTime, TLS: func() (*tls.Config, error) { return m.TLS(), nil }})
	return db, m, err
}

// enlist makes a node a member of the cluster. Its certificate is not renewed.
func (c *crowd) enlist(ctx context.Context, host string, address netip.Addr) (*membership.Member, error) {
	var addresses []string
	for _, text := range c.masters {
		u, err := url.Parse(text)
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, u.Host)
	}
	m, err := membership.Open(membership.Config{Dir: filepath.Join(c.dir, host), TokenFile: c.token, Host: host, Addresses: []string{address.String()}, VTEPs: []string{address.String()},
		Masters: func(context.Context) ([]string, error) { return addresses, nil }, Log: c.log})
	if err != nil {
		return nil, err
	}
	joining, joined := context.WithCancel(ctx)
	var running errgroup.Group
	running.Go(func() error { return m.Run(joining) })
	err = testkit.Until(ctx, host+" has joined", func() bool { return m.TLS() != nil })
	joined()
	return m, errors.Join(err, running.Wait())
}

// joinsAtOnce is how many nodes join, or list the state, concurrently.
const joinsAtOnce = 16

// followedByAgents are the prefixes that each watches, see netplugin/agent.
var followedByAgents = []string{mastercfg.StateRoot, mastercfg.GlobalRoot, objdb.ServicePrefix}

// connecting is how a node accesses the state.
type connecting func(ctx context.Context, host string, address netip.Addr) (*objdb.DB, error)

// agents runs nodes that access the state through netmasters.
func (c *crowd) agents(ctx context.Context, in *bufio.Scanner, out io.Writer) error {
	return c.follow(ctx, in, out, func(ctx context.Context, host string, address netip.Addr) (*objdb.DB, error) {
		db, _, err := c.join(ctx, host, address)
		return db, err
	})
}

// direct runs nodes that access the members of etcd, without authentication.
func (c *crowd) direct(ctx context.Context, in *bufio.Scanner, out io.Writer) error {
	return c.follow(ctx, in, out, func(context.Context, string, netip.Addr) (*objdb.DB, error) {
		return objdb.Open(objdb.Config{Endpoints: c.masters, Log: c.log, RequestTimeout: siteTime})
	})
}

// follow reports how long it took until all nodes had their state, as soon as they have it.
func (c *crowd) follow(ctx context.Context, in *bufio.Scanner, out io.Writer, connect connecting) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	var following, beginning errgroup.Group
	beginning.SetLimit(joinsAtOnce)
	for i := range gateAgents() {
		beginning.Go(func() error {
			address := netip.AddrFrom4([4]byte{10, 200, byte(i >> 8), byte(i)})
			db, err := connect(ctx, gateHost(i), address)
			if err != nil {
				return err
			}
			var mirrors []*mirror.Mirror
			for _, prefix := range followedByAgents {
				m := mirror.New(db, prefix, func(mirror.Batch) {})
				mirrors = append(mirrors, m)
				following.Go(func() error { return m.Run(ctx) })
			}
			own := objdb.Service{ServiceName: mastercfg.AgentVTEPService, HostAddr: address.String(), Port: 4789, Hostname: gateHost(i)}
			if _, err := db.Register(ctx, time.Minute, own); err != nil {
				return err
			}
			return testkit.Until(ctx, gateHost(i)+" has listed", func() bool {
				for _, m := range mirrors {
					if !m.Synced() {
						return false
					}
				}
				return true
			})
		})
	}
	if err := beginning.Wait(); err != nil {
		return err
	}
	joined := time.Since(began)
	db, err := connect(ctx, "observer", netip.MustParseAddr("10.201.0.1"))
	if err != nil {
		return err
	}
	err = testkit.Until(ctx, "all are registered", func() bool {
		all, err := db.Services(ctx, mastercfg.AgentVTEPService)
		return err == nil && len(all) >= gateAgents()
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d have joined and listed after %s, and are registered after %s\n", gateAgents(), joined.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	for in.Scan() { // until the end of the input
	}
	cancel()
	_ = following.Wait() // they were cancelled
	return in.Err()
}

// victim measures the latency of requests on demand: a read of a key, and a write.
func (c *crowd) victim(ctx context.Context, in *bufio.Scanner, out io.Writer) error {
	db, _, err := c.join(ctx, "victim", netip.MustParseAddr("10.201.0.2"))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := testkit.Poll(ctx, func() error { return db.Ping(ctx) }); err != nil { // its netmaster has to learn of it first
		return err
	}
	summary := objdb.Txn{Puts: []objdb.KV{{Key: mastercfg.OvsDriverPrefix + "victim", Value: []byte("{}")}}}
	fmt.Fprintln(out, "ready")
	for in.Scan() {
		var took []string
		for i := range thiefRequests {
			one, err := timed(func() error {
				if i%4 == 0 {
					_, _, err := db.Txn(ctx, summary)
					return err
				}
				_, err := db.Get(ctx, mastercfg.GlobalConfigKey)
				return err
			})
			if err != nil {
				return err
			}
			took = append(took, one.String())
			<-time.After(time.Second / 40) // the limit of a node is 50 per second
		}
		fmt.Fprintln(out, strings.Join(took, " "))
	}
	return in.Err()
}

// gateNetwork returns the network of a tenant with endpoints of simulated nodes.
func gateNetwork(i int) *contivmodel.Network {
	return &contivmodel.Network{TenantName: fmt.Sprintf("gate%02d", i), NetworkName: "net", Encap: "vxlan", Subnet: "10.50.0.0/16", Gateway: "10.50.255.254"}
}

// fillGate creates the endpoints of the simulated nodes: each endpoint of a tenant is on another node.
func fillGate(ctx context.Context, s *site) ([]figure, error) {
	for i := range gateTenants {
		n := gateNetwork(i)
		if _, err := s.prepare(ctx, &contivmodel.Tenant{TenantName: n.TenantName}, n); err != nil {
			return nil, err
		}
	}
	_, err := spread(ctx, memoryClients, gateTenants*gatePerTenant, func(ctx context.Context, i int) error {
		tenant, number := i%gateTenants, i/gateTenants
		return s.createEndpointOn(ctx, gateHost((tenant*7+number*5)%gateAgents()), gateNetwork(tenant).TenantName, "net", "", fmt.Sprintf("%064x", i))
	})
	return []figure{}, err
}
