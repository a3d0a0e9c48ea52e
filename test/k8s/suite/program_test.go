package suite

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// programLimit bounds how long such a program may take.
const programLimit = 20 * time.Minute

// runProgram runs an upstream test program against a cluster, and returns the results of its subtests, by name,
// and its output.
func runProgram(t *testing.T, c *cluster.Cluster, name string, args ...string) (verdicts map[string]string, said string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), programLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.Bin, "k8s", name), append([]string{"-test.v=test2json"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	cmd.WaitDelay = time.Minute
	listener := &listener{t: t, verdicts: map[string]string{}}
	cmd.Stdout, cmd.Stderr = listener, listener
	err = cmd.Run()
	var exit *exec.ExitError
	if len(listener.verdicts) == 0 || err != nil && !errors.As(err, &exit) {
		return nil, "", fmt.Errorf("%s: %d tests ran (%v): %s", name, len(listener.verdicts), err, tail(listener.said.String()))
	}
	if failed := slices.Contains(slices.Collect(maps.Values(listener.verdicts)), "FAIL"); err != nil && !failed {
		return nil, "", fmt.Errorf("%s: no subtest failed, but it did (%v): %s", name, err, tail(listener.said.String()))
	}
	return listener.verdicts, listener.said.String(), nil // the reason of a failure is in the output
}

// listener parses the output of a test program, and logs each subtest that ends.
type listener struct {
	t        *testing.T
	verdicts map[string]string
	said     strings.Builder
	line     string // that has not ended
}

// verdictLine is the last line of a subtest, those inside of it excepted. In the mode test2json it is printed at
// once, after a mark.
var verdictLine = regexp.MustCompile(`^\x16?\s*--- (PASS|FAIL|SKIP): \w+/([^/]+) \(`)

func (l *listener) Write(p []byte) (int, error) {
	l.said.Write(p)
	l.line += string(p)
	for {
		line, rest, whole := strings.Cut(l.line, "\n")
		if !whole {
			return len(p), nil
		}
		l.line = rest
		if found := verdictLine.FindStringSubmatch(line); found != nil {
			l.verdicts[found[2]] = found[1]
			l.t.Log(strings.TrimSpace(line))
		}
	}
}
