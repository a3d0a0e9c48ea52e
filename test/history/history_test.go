package history

import (
	"context"
	"encoding/json"
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
)

var (
	seed       = flag.Uint64("history.seed", 0, "seed of the operations; 0 takes one from the clock")
	operations = flag.Int("history.operations", 10000, "number of operations")
	clients    = flag.Int("history.clients", 16, "number of clients")
	keep       = flag.String("history.keep", "", "directory to keep logs and data of the netmasters in")
)

func TestClientsOfADisturbedClusterSeeOneHistory(t *testing.T) {
	plan := Plan{Seed: *seed, Operations: *operations, Clients: *clients, Report: t.Logf}
	if plan.Seed == 0 {
		plan.Seed = uint64(time.Now().UnixNano())
	}
	t.Logf("to repeat the operations: -history.seed=%d -history.operations=%d -history.clients=%d", plan.Seed, plan.Operations, plan.Clients)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Duration(plan.Operations)*20*time.Millisecond)
	defer cancel()
	cluster, store := start(ctx, t)

	began := time.Now()
	recorder := Record(ctx, store)
	watchers, err := Watch(ctx, cluster)
	if err != nil {
		t.Fatal(err)
	}
	calls, err := Execute(ctx, plan, cluster, store)
	if err != nil {
		t.Fatal(err)
	}
	log, err := recorder.Finish(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls and %d changes of the store in %s", len(calls), len(log.Changes), time.Since(began).Round(time.Millisecond))
	t.Log(summary(calls))

	began = time.Now()
	world, found := Verify(log, calls)
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
	t.Logf("verified in %s", time.Since(began).Round(time.Millisecond))
	report(t, found)
}

// start starts a cluster and connects to its store.
func start(ctx context.Context, t *testing.T) (*Cluster, *clientv3.Client) {
	t.Helper()
	dir := *keep
	if dir == "" {
		dir = t.TempDir()
	}
	cluster, err := StartCluster(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
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

// answered lists all objects the way clients do.
func answered(ctx context.Context, t *testing.T, cluster *Cluster) []contivmodel.Object {
	t.Helper()
	var objects []contivmodel.Object
	for _, kind := range contivmodel.Kinds() {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+cluster.nodes[0].address+"/api/v1/"+kind.Segment+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("list of %s: %d %s %v", kind.Segment, resp.StatusCode, text, err)
		}
		var items []json.RawMessage
		if err := json.Unmarshal(text, &items); err != nil {
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
