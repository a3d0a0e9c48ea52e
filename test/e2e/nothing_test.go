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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// fromNothing is how long three netmasters and three nodes may take until all is well.
const fromNothing = time.Minute

// TestLongAClosedClusterIsThereInAMinute makes an enforced cluster with one token of each kind, and examines it as
// clients without rights.
func TestLongAClosedClusterIsThereInAMinute(t *testing.T) {
	testkit.TakesLong(t)
	ctx, bed := newBareBedFor(t, 8*time.Minute, testbed.Config{Nodes: 3, Secure: true})
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
	t.Run("to others", func(t *testing.T) {
		playOn(t, bed, func(s story) {
			s.tenant("blue")
			s.network("blue", "net", "10.1.0.0/24")
			pod := s.pod(2, "pod", "blue", "net", "")
			s.stranger(bed.Nodes[2])
			for _, n := range bed.Nodes {
				s.controls(n)
			}
			for who, run := range map[string]func(context.Context, ...string) (string, error){
				"a pod":  pod.Run,
				"a node": bed.Nodes[2].Run,
				"a stranger": func(ctx context.Context, args ...string) (string, error) {
					return bed.Nodes[2].Run(ctx, append([]string{"ip", "netns", "exec", "stranger"}, args...)...)
				},
			} {
				for _, n := range bed.Nodes[:2] {
					s.listensToNobody(who, n.Name, n.MgmtIP, run)
				}
			}
			for _, n := range bed.Nodes {
				s.answersNobody(n)
			}
		})
	})
	t.Run("on its own machine", func(t *testing.T) {
		playOn(t, bed, func(s story) {
			s.tenant("blue")
			s.network("blue", "net", "10.1.0.0/24")
			pod, own := s.pod(2, "pod", "blue", "net", ""), bed.Nodes[2]
			s.controls(own)
			s.listensToNobody("a pod", "its node", own.MgmtIP, pod.Run)
			s.listensToNobody("a pod", "its node's end of tunnels", own.VTEPIP, pod.Run)
			// The switch answers for the gateway, forwards queries for names to the agent, and drops the rest.
			const names = 53
			open := s.scan(own, "10.1.0.254", pod.Run, "-at-once", "4096", "-wait", "1s")
			if found := slices.Sorted(maps.Keys(open)); !slices.Equal(found, []int{names}) {
				t.Errorf("a pod finds ports %v of its gateway open, want %d", found, names)
			}
			s.tellsHealthOnLoopback(own)
		})
	})
}

// stranger makes a machine that is no node's on the management network, in a namespace of a node.
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

// controlPort is open for all on a node, so that a scan which sees nothing is noticed.
const controlPort = 33333

// controls has a node listen there.
func (s story) controls(n *testbed.Node) {
	s.Helper()
	p, err := n.Start("control", n.Tool("probe"), "serve", "-tcp", strconv.Itoa(controlPort))
	s.must(err)
	s.afterwards(func(context.Context) error { return p.Kill() })
}

// listener is the result of a scan for an open port.
type listener struct {
	Plain string // the beginning of an answer to a request without TLS
	TLS   bool
}

// isRefused reports whether the answer to a request without TLS says only that TLS is required.
func (l listener) isRefused() bool {
	return strings.HasPrefix(l.Plain, "HTTP/1.") && strings.Contains(l.Plain, " 40") && strings.Contains(strings.ToLower(l.Plain), "https")
}

// scan connects to all ports of an address. A pod's rate of new connections is limited, so dropped attempts are
// repeated, as TCP does after 1 and 3 seconds.
func (s story) scan(n *testbed.Node, address string, run func(context.Context, ...string) (string, error), flags ...string) (open map[int]listener) {
	s.Helper()
	began := time.Now()
	out, err := run(s.ctx, slices.Concat([]string{n.Tool("probe"), "scan", "-wait", "3500ms"}, flags, []string{address})...)
	s.must(err)
	s.must(json.Unmarshal([]byte(out), &open))
	s.Logf("%s: %d ports are open, after %s", address, len(open), time.Since(began).Round(time.Second))
	return open
}

// listensToNobody scans all ports of an address. The open ones speak TLS, and answer a client without TLS only
// that it is required; a pod finds none.
func (s story) listensToNobody(who, what, address string, run func(context.Context, ...string) (string, error)) {
	s.Helper()
	open := s.scan(s.bed.Nodes[0], address, run)
	if _, found := open[controlPort]; !found {
		s.Errorf("%s does not find port %d of %s open, which is: %v", who, controlPort, what, open)
	}
	delete(open, controlPort)
	for port, found := range open {
		switch {
		case who == "a pod":
			s.Errorf("%s finds port %d of %s open", who, port, what)
		case !found.TLS || found.Plain != "" && !found.isRefused():
			s.Errorf("%s finds port %d of %s: TLS %t, and in plain HTTP %q", who, port, what, found.TLS, found.Plain)
		}
	}
	if want := []int{2379, 2380, 9090, 9999}; who != "a pod" {
		if found := slices.Sorted(maps.Keys(open)); !slices.Equal(found, want) {
			s.Errorf("%s finds ports %v of %s open, want %v", who, found, what, want)
		}
	}
}

// tellsHealthOnLoopback scans loopback from a process in the namespace of a node. In plain HTTP netmaster and
// netplugin answer nothing but their health.
func (s story) tellsHealthOnLoopback(n *testbed.Node) {
	s.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: n.DialContext}, Timeout: 20 * time.Second}
	defer client.CloseIdleConnections()
	health := []string{"/healthz", "/readyz"}
	paths := append(s.described(n), unknownMay...)
	for _, address := range []string{"127.0.0.1", "::1"} {
		open := s.scan(n, address, n.Run)
		if _, found := open[controlPort]; !found {
			s.Errorf("a process of the machine does not find port %d of %s open, which is: %v", controlPort, address, open)
		}
		delete(open, controlPort)
		for port, found := range open {
			if !found.TLS && port != agentPort {
				s.Errorf("port %d of %s does not speak TLS, and answers %q", port, address, found.Plain)
			}
			if found.Plain == "" {
				continue // TLS only
			}
			server, paths := "http://"+net.JoinHostPort(address, strconv.Itoa(port)), paths
			if port == agentPort {
				paths = ofAgents
			}
			var told []string
			for _, path := range paths {
				if code := s.statusOf(&client, http.MethodGet, server, path); code < 400 && !slices.Contains(health, path) {
					told = append(told, path)
				}
			}
			s.Logf("%s tells a process of its machine, beside %v: %v", server, health, told)
			if len(told) > 0 {
				s.Errorf("%s answers nobody's requests in plain HTTP: %v", server, told)
			}
		}
	}
}

// agentPort is the port of netplugin's server.
const agentPort = 9090

// unknownMay are netmaster's and netplugin's paths that are served without certificate and token.
var unknownMay = []string{"/healthz", "/readyz", "/version", "/api/v1/ca", "/api/v1/join", "/api/v1/renew",
	"/api/v1/auth_proxy/login", "/api/v1/auth_proxy/openid/login", "/api/v1/auth_proxy/version", "/api/v1/auth_proxy/health"}

// ofAgents are the paths of netplugin; netmaster's are in its API document.
var ofAgents = []string{"/healthz", "/readyz", "/version", "/metrics", "/svcstats", "/inspect/driver", "/inspect/counters", "/inspect/bgp", "/inspect/drops",
	"/inspect/nameserver", "/inspect/tunnels", "/inspect/endpoint/x", "/debug/reclaimEndpoint/x"}

// answersNobody sends requests for every path of a node's servers, with every method, without credentials.
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

// described returns the paths of netmaster's API document for root.
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

// answersOnly expects that a path is refused to a client without credentials, unless it is one of unknownMay.
func (s story) answersOnly(client *http.Client, method, server, path string) {
	s.Helper()
	switch code := s.statusOf(client, method, server, path); code {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
	default:
		if !slices.Contains(unknownMay, strings.TrimSuffix(path, "/")) {
			s.Errorf("%s %s%s answers nobody: %d", method, server, path, code)
		}
	}
}

// statusOf returns the status of the answer to a request without credentials.
func (s story) statusOf(client *http.Client, method, server, path string) int {
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
	return resp.StatusCode
}
