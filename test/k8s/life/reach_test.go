package life

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

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
	reaches := func(want bool, at ...string) {
		t.Helper()
		for _, to := range at {
			if err := testkit.Poll(ctx, func() error {
				_, err := c.Kubectl(ctx, "exec", "client", "--", "curl", "--silent", "--max-time", "3", "--output", "/dev/null", "http://"+to+"/hostname")
				if (err == nil) != want {
					err = fmt.Errorf("reached: %v, want %v: %w", err == nil, want, err)
				} else {
					err = nil
				}
				return err
			}); err != nil {
				t.Errorf("%s: %v", to, err)
			}
		}
	}
	ownNode, hostPort, nodePort, farNode := own+":7070", own+":8088", own+":30080", far+":7070"
	reaches(true, ownNode, hostPort, nodePort, farNode, named+":8080")
	kubectl("apply", "-f", manifest("isolated.yaml"))
	reaches(false, hostPort, nodePort, farNode)
	reaches(true, ownNode)
	kubectl("delete", "-f", manifest("isolated.yaml"))
	kubectl("apply", "-f", manifest("names.yaml"))
	reaches(false, ownNode, web+":8080") // the name was not asked for since
	reaches(true, named+":8080", web+":8080", farNode)
	reaches(false, other+":8080", ownNode)
}
