package history

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/test/testkit"
)

var (
	seed       = flag.Uint64("history.seed", 0, "seed of the operations; 0 takes one from the clock")
	operations = flag.Int("history.operations", 3000, "number of operations")
	clients    = flag.Int("history.clients", 16, "number of clients")
	keep       = flag.String("history.keep", "", "directory to keep both records and the logs and data of the netmasters in")
)

func TestClientsOfADisturbedClusterSeeOneHistory(t *testing.T) {
	disturbed(t, *operations, variants[:1])
}

// TestLongClientsOfADisturbedClusterSeeOneHistory is the same, for longer, and with many objects, too.
func TestLongClientsOfADisturbedClusterSeeOneHistory(t *testing.T) {
	testkit.TakesLong(t)
	const longer = 7
	disturbed(t, longer**operations, variants)
}

// disturbed runs the variants, which mostly wait for a leader, beside each other.
func disturbed(t *testing.T, operations int, variants []variant) {
	binary := built(t)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			oneHistory(t, binary, v.scale, operations/v.part)
		})
	}
}

func built(t *testing.T) (binary string) {
	t.Helper()
	binary, err := Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// variant of a run takes a part of the operations.
type variant struct {
	name  string
	scale Scale
	part  int
}

var variants = []variant{{"small", Small, 1}, {"wide", Wide, 4}}

// planOf returns a plan by the flags. When the test fails, it logs how to repeat it.
func planOf(t *testing.T, scale Scale, n int) Plan {
	t.Helper()
	plan := Plan{Seed: *seed, Scale: scale, Operations: n, Clients: *clients, Report: t.Logf}
	if plan.Seed == 0 {
		plan.Seed = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			long := ""
			if strings.HasPrefix(t.Name(), "TestLong") { // it is skipped otherwise
				long = "CONTIV_TEST_LONG=1 "
			}
			t.Logf("to repeat the operations:\n\t%sgo test -race ./test/history -run '^%s$' -history.seed=%d -history.operations=%d -history.clients=%d -history.keep=DIRECTORY",
				long, strings.ReplaceAll(t.Name(), "/", "$/^"), plan.Seed, *operations, plan.Clients)
		}
	})
	return plan
}

// oneHistory lets clients work with a cluster that is disturbed, and verifies their results and the store's
// history.
func oneHistory(t *testing.T, binary string, scale Scale, operations int) {
	plan := planOf(t, scale, operations)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute+time.Duration(plan.Operations)*20*time.Millisecond)
	defer cancel()
	cluster, store := start(ctx, t, binary, "")

	recorder := Record(ctx, store)
	watchers, err := Watch(ctx, cluster)
	if err != nil {
		t.Fatal(err)
	}
	calls := execute(ctx, t, plan, cluster, store)
	verify(ctx, t, cluster, recorder, watchers, calls)
}

// execute carries out a plan.
func execute(ctx context.Context, t *testing.T, plan Plan, cluster *Cluster, store *clientv3.Client) []*Call {
	t.Helper()
	began := time.Now()
	calls, err := Execute(ctx, plan, cluster, store)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls in %s", len(calls), time.Since(began).Round(time.Millisecond))
	t.Log(summary(calls))
	return calls
}

// verify ends the records and reports everything that is not as it must be.
func verify(ctx context.Context, t *testing.T, cluster *Cluster, recorder *Recorder, watchers *Watchers, calls []*Call) {
	t.Helper()
	if err := cluster.Rest(ctx); err != nil {
		t.Fatal(err)
	}
	log, err := recorder.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, gap := range log.Gaps[:min(len(log.Gaps), shown)] {
		t.Log(gap)
	}
	written(t, log, calls)
	began := time.Now()
	world, found := Verify(log, calls)
	for _, text := range cluster.Diverged(ctx, recorder.store) {
		found = append(found, Finding{"members of the store", text})
	}
	for _, text := range Links(world, answered(ctx, t, cluster), true) {
		found = append(found, Finding{"links of answers", text})
	}
	for _, text := range watchers.Compare(ctx, log) {
		found = append(found, Finding{"watches", text})
	}
	alarms, err := cluster.Alarms()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range alarms {
		found = append(found, Finding{"logs", line})
	}
	t.Logf("%d changes of the store, %d of them large, verified in %s", len(log.Changes), len(log.spans), time.Since(began).Round(time.Millisecond))
	report(t, found)
}

// place is where a test keeps logs and data.
func place(t *testing.T) string {
	t.Helper()
	if *keep == "" {
		return t.TempDir()
	}
	dir := filepath.Join(*keep, t.Name())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// written keeps both records where the logs are kept.
func written(t *testing.T, log *Log, calls []*Call) {
	t.Helper()
	if *keep == "" {
		return
	}
	var changes, answers strings.Builder
	for _, c := range log.Changes {
		fmt.Fprintf(&changes, "%d %s %s\n", c.Revision, c.Key, c.Value)
	}
	for _, c := range calls {
		fmt.Fprintf(&answers, "%s\t%s\n", c, c.Body)
	}
	for name, text := range map[string]string{"changes": changes.String(), "calls": answers.String()} {
		if err := os.WriteFile(filepath.Join(place(t), name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// start starts a cluster, with members of a store or on one beside it, and
// connects to the store.
func start(ctx context.Context, t *testing.T, binary, beside string) (*Cluster, *clientv3.Client) {
	t.Helper()
	dir := place(t)
	cluster := NewCluster(binary, dir, beside)
	t.Cleanup(cluster.Stop)
	if err := cluster.Start(ctx); err != nil {
		for _, n := range cluster.nodes {
			text, _ := os.ReadFile(filepath.Join(dir, n.name+".log"))
			t.Logf("log of %s:\n%s", n.name, text)
		}
		t.Fatal(err)
	}
	store, err := clientv3.New(clientv3.Config{Endpoints: cluster.Stores(), DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return cluster, store
}

// answered lists all objects the way clients do. A leader whose machine is busy may lose its term even now.
func answered(ctx context.Context, t *testing.T, cluster *Cluster) []contivmodel.Object {
	t.Helper()
	var objects []contivmodel.Object
	for _, kind := range contivmodel.Kinds() {
		var list Call
		err := testkit.Poll(ctx, func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cluster.nodes[0].address+"/api/v1/"+kind.Segment+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", "application/problem+json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			if list.read(resp, text); list.Outcome == Unknown && uncertain[list.Kind] {
				return errors.New(list.Message)
			}
			return nil
		})
		if err != nil || list.Outcome != Done {
			t.Fatalf("list of %s: %s %s %s, %v", kind.Segment, list.Outcome, list.Kind, list.Message, err)
		}
		var items []json.RawMessage
		if err := json.Unmarshal(list.Body, &items); err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			objects = append(objects, decodeObject(kind.Type, item))
		}
	}
	return objects
}

// summary counts how calls ended.
func summary(calls []*Call) string {
	counts := map[string]int{}
	for _, c := range calls {
		what := fmt.Sprintf("%s %s: %s", c.Verb, c.Type, c.Outcome)
		if c.Outcome == Refused {
			what += " " + c.Kind.String()
		}
		counts[what]++
	}
	var lines []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		lines = append(lines, fmt.Sprintf("%6d %s", counts[what], what))
	}
	return "calls:\n" + strings.Join(lines, "\n")
}

// shown is how many findings of one check are worth reading.
const shown = 15

func report(t *testing.T, found []Finding) {
	t.Helper()
	counts := map[string]int{}
	for _, f := range found {
		if counts[f.Check]++; counts[f.Check] <= shown {
			t.Errorf("%s: %s", f.Check, f.Text)
		}
	}
	for check, n := range counts {
		if n > shown {
			t.Errorf("%s: %d findings in all", check, n)
		}
	}
}
