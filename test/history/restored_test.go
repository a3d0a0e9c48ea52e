package history

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/test/etcdtest"
	"github.com/contiv/netplugin/test/testkit"
)

// A store restored from a backup has a shorter history: changes after the backup never happened. The netmasters,
// which have seen them, run on and must accept the store's present state.
func TestARestoredStoreHasOneHistory(t *testing.T) {
	plan := planOf(t, Small, *operations/20)
	plan.Calm = true
	binary := built(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	beside := startBeside(ctx, t)
	cluster, store := start(ctx, t, binary, beside.URL)
	plan.Began = time.Now()

	before := execute(ctx, t, plan, cluster, store)
	backup, err := beside.Backup(ctx)
	if err != nil {
		t.Fatal(err)
	}
	plan.Seed++
	lost := execute(ctx, t, plan, cluster, store)
	last := lead(ctx, t, store)
	if err := beside.Restore(ctx, backup); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d calls are forgotten", len(lost))
	watchers := watchPresent(ctx, t, cluster, store)
	refuseForgotten(ctx, t, cluster, last)
	recorder := Record(ctx, store) // from the first revision
	plan.Seed++
	after := execute(ctx, t, plan, cluster, store)
	verify(ctx, t, cluster, recorder, watchers, append(before, after...))
}

// startBeside starts an empty store beside the netmasters, which ends with the test.
func startBeside(ctx context.Context, t *testing.T) *etcdtest.Process {
	t.Helper()
	beside := etcdtest.New(place(t), etcdtest.WithoutDisk)
	t.Cleanup(beside.Kill)
	if err := beside.Start(ctx); err != nil {
		t.Fatal(err)
	}
	return beside
}

// watchPresent begins to watch as soon as no netmaster has the forgotten revisions any more. The term of a leader
// that has them ends in the meantime, and with it the watches that it serves.
func watchPresent(ctx context.Context, t *testing.T, cluster *Cluster, store *clientv3.Client) (watchers *Watchers) {
	t.Helper()
	began := time.Now()
	err := testkit.Poll(ctx, func() (err error) {
		if watchers, err = Watch(ctx, cluster); err != nil {
			return err
		}
		present, err := store.Get(ctx, root, clientv3.WithCountOnly())
		if err != nil {
			return err
		}
		for _, w := range watchers.all {
			if since := w.begun(); since > present.Header.Revision {
				watchers.end()
				return fmt.Errorf("%s begins at revision %d, the store is at %d", w.name, since, present.Header.Revision)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the netmasters took the store as it is after %s", time.Since(began).Round(time.Millisecond))
	return watchers
}

// lead moves the store's revision further ahead of its backup than the netmasters move it once they have noticed
// the restore, and returns it: a revision that exists again cannot be distinguished from the forgotten one.
func lead(ctx context.Context, t *testing.T, store *clientv3.Client) (last int64) {
	t.Helper()
	for range 200 {
		resp, err := store.Put(ctx, "/beside", "")
		if err != nil {
			t.Fatal(err)
		}
		last = resp.Header.Revision
	}
	return last
}

// refuseForgotten requires that no watch resumes after a revision that is forgotten. A busy leader may lose its
// term even now: a netmaster without a leader is asked again.
func refuseForgotten(ctx context.Context, t *testing.T, cluster *Cluster, last int64) {
	t.Helper()
	for _, n := range cluster.nodes {
		err := testkit.Poll(ctx, func() error {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/api/v1/tenants/?watch=true&revision=%d", n.address, last), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Accept", "application/problem+json")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode == http.StatusGone {
				return nil
			}
			said := fmt.Errorf("a watch at %s after revision %d, which is forgotten: %s", n.name, last, resp.Status)
			if resp.StatusCode == http.StatusOK { // has no end that could be read
				t.Fatal(said)
			}
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				return err
			}
			said = fmt.Errorf("%w: %s", said, text)
			switch {
			case resp.StatusCode == http.StatusBadGateway, resp.StatusCode == http.StatusServiceUnavailable:
			case resp.StatusCode == http.StatusInternalServerError && strings.Contains(string(text), "Leader not found"):
			default:
				t.Fatal(said)
			}
			return said
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
