package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// fromNothing is how long three netmasters and three nodes may take until all is well.
const fromNothing = time.Minute

// TestLongAClosedClusterIsThereInAMinute makes an enforced cluster with one token of each kind, and
// looks at it from where nobody should see anything.
func TestLongAClosedClusterIsThereInAMinute(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBed(t, testbed.Config{Nodes: 3, Secure: true})
	began := time.Now()
	if err := bed.StartDaemons(ctx); err != nil { // netmaster, token create, netmaster, token create, netplugin
		t.Fatal(err)
	}
	err := testkit.Poll(ctx, func() error {
		said, err := bed.Netctl(ctx, "check")
		if err != nil {
			return fmt.Errorf("%w\n%s", err, said)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	if t.Logf("all is well after %s", took.Round(time.Millisecond)); took > fromNothing {
		t.Errorf("that is more than %s", fromNothing)
	}
	mode, err := bed.Netctl(ctx, "security", "status")
	if err != nil || !strings.Contains(mode, "enforced") {
		t.Errorf("%s, %v", mode, err)
	}
	for _, n := range bed.Nodes {
		if err := n.WaitWayOut(ctx); err != nil {
			t.Fatal(err)
		}
	}
	playOn(t, bed, func(s story) {
		s.tenant("blue")
		s.network("blue", "net", "10.1.0.0/24")
		pod := s.pod(2, "pod", "blue", "net", "")
		s.stranger(bed.Nodes[2])
		for who, run := range map[string]func(context.Context, ...string) (string, error){
			"a pod":  pod.Run,
			"a node": bed.Nodes[2].Run,
			"a stranger": func(ctx context.Context, args ...string) (string, error) {
				return bed.Nodes[2].Run(ctx, append([]string{"ip", "netns", "exec", "stranger"}, args...)...)
			},
		} {
			for _, n := range bed.Nodes[:2] {
				s.listensToNobody(who, n, run)
			}
		}
		for _, n := range bed.Nodes {
			s.answersNobody(n)
		}
	})
}

// stranger makes a machine that is no node's on the network of management, in a namespace of a node.
func (s story) stranger(host *testbed.Node) {
	s.Helper()
	_, err := host.Run(s.ctx, "sh", "-ec", `
ip netns add stranger
ip link add link eth0 name lan netns stranger type macvlan mode bridge
ip -n stranger address add 192.0.2.250/24 dev lan
ip -n stranger link set lan up
ip -n stranger link set lo up`)
	s.must(err)
	s.afterwards(func(ctx context.Context) error {
		_, err := host.Run(ctx, "ip", "netns", "delete", "stranger")
		return err
	})
}

// listensToNobody scans all ports of a node. What is open there speaks TLS, and to who does not says that he has to; a
// pod finds nothing.
func (s story) listensToNobody(who string, n *testbed.Node, run func(context.Context, ...string) (string, error)) {
	s.Helper()
	out, err := run(s.ctx, n.Tool("probe"), "scan", n.MgmtIP)
	s.must(err)
	var open map[int]struct {
		Plain string
		TLS   bool
	}
	s.must(json.Unmarshal([]byte(out), &open))
	for port, found := range open {
		refused := strings.HasPrefix(found.Plain, "HTTP/1.") && strings.Contains(found.Plain, " 40") && strings.Contains(strings.ToLower(found.Plain), "https")
		switch {
		case who == "a pod":
			s.Errorf("%s finds port %d of %s open", who, port, n.Name)
		case !found.TLS || found.Plain != "" && !refused:
			s.Errorf("%s finds port %d of %s: TLS %t, and in plain HTTP %q", who, port, n.Name, found.TLS, found.Plain)
		}
	}
	if want := []int{2379, 2380, 9090, 9999}; who != "a pod" {
		if found := slices.Sorted(maps.Keys(open)); !slices.Equal(found, want) {
			s.Errorf("%s finds ports %v of %s open, want %v", who, found, n.Name, want)
		}
	}
}

// unknownMay are the paths that are answered to who shows no certificate and no token: those of netmaster, and of netplugin.
var unknownMay = []string{"/healthz", "/readyz", "/version", "/api/v1/ca", "/api/v1/join", "/api/v1/renew",
	"/api/v1/auth_proxy/login", "/api/v1/auth_proxy/openid/login", "/api/v1/auth_proxy/version", "/api/v1/auth_proxy/health"}

// ofAgents are the paths of netplugin; netmaster's are in its own description.
var ofAgents = []string{"/healthz", "/readyz", "/version", "/metrics", "/svcstats", "/inspect/driver", "/inspect/counters", "/inspect/bgp", "/inspect/drops",
	"/inspect/nameserver", "/inspect/tunnels", "/inspect/endpoint/x", "/debug/reclaimEndpoint/x"}

// answersNobody asks for every path of a node's servers in every way, as nobody.
func (s story) answersNobody(n *testbed.Node) {
	s.Helper()
	paths := append(s.described(n), unknownMay...)
	client := http.Client{Transport: &http.Transport{DialContext: s.bed.Nodes[2].DialContext, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	for server, paths := range map[string][]string{"9999": paths, "9090": ofAgents} {
		for _, path := range paths {
			for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch} {
				s.answersOnly(&client, method, "https://"+n.MgmtIP+":"+server, path)
			}
		}
	}
}

// described are the paths that netmaster describes to root.
func (s story) described(n *testbed.Node) []string {
	s.Helper()
	socket := fmt.Sprintf("/proc/%d/root/run/contiv/netmaster.sock", n.Netmaster().PID)
	root := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	resp, err := root.Get("http://localhost/api/v1/openapi.json")
	s.must(err)
	defer resp.Body.Close()
	var document struct{ Paths map[string]json.RawMessage }
	s.must(json.NewDecoder(resp.Body).Decode(&document))
	if len(document.Paths) < 50 {
		s.Fatalf("netmaster describes %d paths", len(document.Paths))
	}
	return slices.Collect(maps.Keys(document.Paths))
}

// answersOnly expects that a path is answered to nobody who is not known, unless it is one of those that are.
func (s story) answersOnly(client *http.Client, method, server, path string) {
	s.Helper()
	for strings.Contains(path, "{") { // anything stands for a parameter
		before, rest, _ := strings.Cut(path, "{")
		_, after, _ := strings.Cut(rest, "}")
		path = before + "x" + after
	}
	req, err := http.NewRequestWithContext(s.ctx, method, server+path, strings.NewReader("{"))
	s.must(err)
	req.Header.Set("Accept", "application/problem+json, application/json")
	resp, err := client.Do(req)
	s.must(err)
	_ = resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
	default:
		if !slices.Contains(unknownMay, strings.TrimSuffix(path, "/")) {
			s.Errorf("%s %s%s answers nobody: %s", method, server, path, resp.Status)
		}
	}
}
