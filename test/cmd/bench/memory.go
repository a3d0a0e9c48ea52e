package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	memoryNetworks  = 1000
	memoryEndpoints = 100000
	memoryClients   = 64
	memoryGoal      = 500 // MiB

	takeovers    = 3
	takeoverGoal = 300 * time.Millisecond

	deafClients = 16
	deafTime    = 15 * time.Second
	deafGoal    = 100 // MiB
)

// benchMemory fills the cluster and reads the anonymous memory of the leading netmaster, its etcd member included;
// the reference is the same process before. On the full cluster it then measures how long there is no leader after
// SIGTERM of the leader, and the cost of clients that do not read their responses.
func benchMemory(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	leader, err := bed.Leader(ctx)
	if err != nil {
		return nil, err
	}
	m := memoryOf(ctx, leader.Netmaster().PID)
	_, err = insideLeader("fill")(ctx, bed)
	before, after, most, memErr := m.finish()
	if err != nil {
		return nil, err
	}
	if memErr != nil {
		return nil, memErr
	}
	figures := []figure{{
		Name:  fmt.Sprintf("netmaster, %d endpoints in %d networks /24", memoryEndpoints, memoryNetworks),
		Value: fmt.Sprintf("%.0f MiB (at most %.0f)", after, most), Reference: fmt.Sprintf("before %.0f MiB", before), Ratio: "-",
		Goal: fmt.Sprintf("at most %d MiB", memoryGoal), Met: most <= memoryGoal,
	}}
	for _, measure := range []func(context.Context, *testbed.Bed) (figure, error){following, deaf, takeover} {
		f, err := measure(ctx, bed)
		if err != nil {
			return nil, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// fillMemory does not remove the objects: the bed is closed after the last measurement.
func fillMemory(ctx context.Context, s *site) ([]figure, error) {
	if _, err := s.stage(ctx, "crowd"); err != nil {
		return nil, err
	}
	if _, err := s.Apply(ctx, networks("crowd", memoryNetworks), false); err != nil {
		return nil, err
	}
	_, err := spread(ctx, memoryClients, memoryEndpoints, func(ctx context.Context, i int) error {
		return s.createEndpoint(ctx, "crowd", fmt.Sprintf("n%05d", i%memoryNetworks), "", fmt.Sprintf("%064x", i))
	})
	return []figure{}, err
}

// following reads the memory of the other netmasters, which hold the leader's state to take over at once; the
// larger one counts.
func following(ctx context.Context, bed *testbed.Bed) (figure, error) {
	leader, err := bed.Leader(ctx)
	if err != nil {
		return figure{}, err
	}
	most := 0.0
	for _, n := range bed.Nodes {
		if n == leader {
			continue
		}
		size, err := resident(n.Netmaster().PID, "RssAnon")
		if err != nil {
			return figure{}, err
		}
		most = max(most, size)
	}
	leads, err := resident(leader.Netmaster().PID, "RssAnon")
	return figure{
		Name:  fmt.Sprintf("a netmaster that follows, %d endpoints", memoryEndpoints),
		Value: fmt.Sprintf("%.0f MiB", most), Reference: fmt.Sprintf("the leader %.0f MiB", leads), Ratio: fmt.Sprintf("%.2f", most/leads),
		Goal: fmt.Sprintf("at most %d MiB", memoryGoal), Met: most <= memoryGoal,
	}, err
}

// longest are the routes with the longest responses of a full cluster.
var longest = []string{"/debug/ofnet", "/api/v1/inspect/tenants/crowd/"}

// deaf makes clients request long responses without reading them.
func deaf(ctx context.Context, bed *testbed.Bed) (figure, error) {
	leader, err := bed.Leader(ctx)
	if err != nil {
		return figure{}, err
	}
	m := memoryOf(ctx, leader.Netmaster().PID)
	for i := range deafClients {
		conn, err := leader.DialContext(ctx, "tcp", leader.MgmtIP+":9999")
		if err != nil {
			return figure{}, err
		}
		defer conn.Close()
		if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
			return figure{}, err
		}
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", longest[i%len(longest)], leader.MgmtIP); err != nil {
			return figure{}, err
		}
	}
	select {
	case <-time.After(deafTime):
	case <-ctx.Done():
	}
	before, _, most, err := m.finish()
	grown := max(0, most-before)
	return figure{
		Name:  fmt.Sprintf("%d clients that do not read, %d endpoints", deafClients, memoryEndpoints),
		Value: fmt.Sprintf("+%.0f MiB", grown), Reference: fmt.Sprintf("before %.0f MiB", before), Ratio: "-",
		Goal: fmt.Sprintf("at most +%d MiB", deafGoal), Met: grown <= deafGoal,
	}, err
}

// takeover measures the time from SIGTERM of the leader until another netmaster reports that it is the leader and
// serves; the former leader is restarted afterwards.
func takeover(ctx context.Context, bed *testbed.Bed) (figure, error) {
	var took []time.Duration
	for range takeovers {
		old, err := bed.Leader(ctx)
		if err != nil {
			return figure{}, err
		}
		if err := quiet(ctx); err != nil {
			return figure{}, err
		}
		ended := make(chan error, 1)
		began := time.Now()
		go func() { ended <- old.Netmaster().Terminate() }()
		if err := testkit.Until(ctx, "another leader", func() bool { return othersLead(ctx, bed, old) }); err != nil {
			return figure{}, err
		}
		took = append(took, time.Since(began))
		if err := <-ended; err != nil {
			return figure{}, err
		}
		if err := old.StartNetmaster(); err != nil {
			return figure{}, err
		}
		if err := testkit.Until(ctx, "the old leader serves again", func() bool { return role(ctx, old) != "" }); err != nil {
			return figure{}, err
		}
	}
	worst := slices.Max(took)
	return figure{
		Name:  fmt.Sprintf("SIGTERM of the leader until the next serves, %d endpoints", memoryEndpoints),
		Value: fmt.Sprintf("%s (worst %s)", inMS(median(took)), inMS(worst)), Reference: "none", Ratio: "-",
		Goal: "at most " + inMS(takeoverGoal), Met: median(took) <= takeoverGoal,
	}, nil
}

func othersLead(ctx context.Context, bed *testbed.Bed, old *testbed.Node) bool {
	for _, n := range bed.Nodes {
		if n != old && role(ctx, n) == "leader" {
			return true
		}
	}
	return false
}

// role returns the role that a node's netmaster reports, empty if it does not serve.
func role(ctx context.Context, n *testbed.Node) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	client := http.Client{Transport: &http.Transport{DialContext: n.DialContext, DisableKeepAlives: true}}
	text, err := get(ctx, &client, "http://"+n.MgmtIP+":9999/readyz")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(text)
}

// resident returns a line of a process's status, in MiB.
func resident(pid int, line string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(string(status), line+":")
	fields := strings.Fields(rest)
	if !found || len(fields) == 0 {
		return 0, fmt.Errorf("/proc/%d/status: no %s", pid, line)
	}
	kib, err := strconv.ParseFloat(fields[0], 64)
	return kib / 1024, err
}
