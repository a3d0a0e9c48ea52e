package life

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/testkit"
)

// A pod that policies isolate reaches its own node, but not what that leads to; and names of domains and nodes are
// peers of a policy of the cluster, which counts for the pod's own node as well.
func TestWhatAPodReachesIsWhatPoliciesSay(t *testing.T) {
	c, _ := up(t, 2)
	ctx, cancel := context.WithTimeout(t.Context(), podLimit)
	defer cancel()
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := c.Kubectl(ctx, args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	manifest := func(name string) string {
		t.Helper()
		path, err := filepath.Abs(filepath.Join("testdata", name)) // kubectl runs elsewhere
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	kubectl("apply", "-f", manifest("reach.yaml"))
	kubectl("wait", "--for=condition=Ready", "--timeout=3m", "pod", "--all")
	address := func(of string) string { return kubectl("get", "pod", of, "-o", "jsonpath={.status.podIP}") }
	own, far, web, other := address("process1"), address("process2"), address("web"), address("other")
	const named = "web.default.svc.cluster.local"
	checkFrom := func(from string, holds func(ctx context.Context, c *cluster.Cluster, from, to string) error, at ...string) {
		t.Helper()
		for _, to := range at {
			if err := testkit.Poll(ctx, func() error { return holds(ctx, c, from, to) }); err != nil {
				t.Errorf("from %s to %s: %v", from, to, err)
			}
		}
	}
	check := func(holds func(ctx context.Context, c *cluster.Cluster, from, to string) error, at ...string) {
		t.Helper()
		checkFrom("client", holds, at...)
	}
	ownNode, hostPort, nodePort, farNode := own+":7070", own+":8088", own+":30080", far+":7070"
	check(reached, ownNode, hostPort, nodePort, farNode, named+":8080")
	for _, n := range c.Nodes { // not by what Kubernetes does not know of it
		if n.MgmtIP == own {
			check(denied, n.VTEPIP+":30080")
		}
	}
	kubectl("apply", "-f", manifest("isolated.yaml"))
	check(denied, hostPort, nodePort, farNode)
	check(reached, ownNode)
	kubectl("delete", "-f", manifest("isolated.yaml"))
	// The process of another node sends from an address of that node which Kubernetes does not know.
	client := address("client") + ":8080"
	checkFrom("process2", reached, client)
	kubectl("apply", "-f", filled(t, "onenode.yaml", own))
	checkFrom("process2", denied, client)
	checkFrom("process1", reached, client)
	kubectl("apply", "-f", filled(t, "onenode.yaml", far))
	checkFrom("process2", reached, client)
	checkFrom("web", denied, client)
	kubectl("delete", "-f", filled(t, "onenode.yaml", far))
	kubectl("apply", "-f", manifest("names.yaml"))
	check(denied, ownNode, web+":8080") // the name was not asked for since
	check(reached, named+":8080", web+":8080", farNode)
	check(denied, other+":8080", ownNode)
}

// filled writes a manifest about a node with this address.
func filled(t *testing.T, name, address string) (path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, bytes.ReplaceAll(text, []byte("ADDRESS"), []byte(address)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// reached returns why a pod does not reach a server.
func reached(ctx context.Context, c *cluster.Cluster, from, to string) error {
	code, err := curl(ctx, c, from, to)
	if err == nil && code != "0" {
		err = fmt.Errorf("not reached: curl's exit code is %s", code)
	}
	return err
}

// denied returns an error if a pod reaches a server. One failure may be chance, so it takes three in a row.
func denied(ctx context.Context, c *cluster.Cluster, from, to string) error {
	for range 3 {
		code, err := curl(ctx, c, from, to)
		if err != nil {
			return err
		}
		if code != curlRefused && code != curlTimeout {
			return fmt.Errorf("not denied: curl's exit code is %s", code)
		}
	}
	return nil
}

// Exit codes of curl (curl(1), EXIT CODES).
const (
	curlRefused = "7"
	curlTimeout = "28"
)

// curl sends a request to a server from a pod. It returns curl's exit code; an error means that curl has not run.
func curl(ctx context.Context, c *cluster.Cluster, from, to string) (code string, err error) {
	out, err := c.Kubectl(ctx, "exec", from, "--", "sh", "-c", `curl --silent --max-time 2 --output /dev/null "$0"; echo $?`, "http://"+to+"/hostname")
	return strings.TrimSpace(out), err
}
