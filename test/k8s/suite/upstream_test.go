package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// processes is how many of the tests run at once: they sleep most of the time.
const processes = 5

// A node that is not ready stalls each test for 7 minutes. Tests that run at the limit of their part are
// interrupted, and the report names them; a program that goes on after that is killed.
const (
	upstreamLimit = 15 * time.Minute
	interrupted   = 4 * time.Minute // to clean up
	logsTime      = time.Minute     // to print the logs of the cluster
)

// limitOf returns how long a part may run, so that its report comes before the deadline of all tests.
func limitOf(t *testing.T) (time.Duration, error) {
	deadline, limited := t.Deadline()
	if !limited {
		return upstreamLimit, nil
	}
	limit := min(upstreamLimit, time.Until(deadline)-interrupted-logsTime)
	if limit <= 0 {
		return 0, fmt.Errorf("no time is left before %s, the deadline of all tests", deadline.Format(time.TimeOnly))
	}
	return limit, nil
}

// spec is ginkgo's report on a test.
type spec struct {
	ContainerHierarchyTexts    []string
	LeafNodeType               string
	LeafNodeText               string
	State                      string
	RunTime                    time.Duration
	Failure                    struct{ Message string }
	CapturedGinkgoWriterOutput string
}

func (s spec) name() string {
	return strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " ")
}

// runUpstream runs a part, for limit at most, and returns its tests, those that were skipped by expressions excepted.
func runUpstream(ctx context.Context, c *cluster.Cluster, p part, limit time.Duration, report string) ([]spec, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+interrupted)
	defer cancel()
	tool := func(name string) string { return filepath.Join(c.Bin, "k8s", name) }
	cmd := exec.CommandContext(ctx, tool("ginkgo"), "--procs", strconv.Itoa(processes), "--no-color", "--focus", p.focus, "--skip", p.skip, "--timeout", limit.Round(time.Second).String(),
		"--json-report", filepath.Base(report), "--output-dir", filepath.Dir(report), tool("e2e.test"), "--",
		"--kubeconfig", c.Kubeconfig(), "--provider=local", "--num-nodes", strconv.Itoa(len(c.Nodes)), "--kubectl-path", tool("kubectl"),
		"--dump-logs-on-failure=false")
	cmd.WaitDelay = time.Minute
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	runErr := cmd.Run()
	data, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("%w; %w: %s", err, runErr, tail(out.String()))
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, err
	}
	var ran []spec
	for _, s := range suites {
		for _, one := range s.SpecReports {
			if one.LeafNodeType == "It" && one.State != "skipped" {
				ran = append(ran, one)
			}
		}
	}
	var exit *exec.ExitError
	if len(ran) == 0 || runErr != nil && !errors.As(runErr, &exit) {
		return nil, fmt.Errorf("no test ran: %w: %s", runErr, tail(out.String()))
	}
	return ran, nil // why one failed is in its report
}

// tail is as much of an output as is worth reading.
func tail(s string) string { return s[max(0, len(s)-4000):] }
