package history

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/contiv/netplugin/test/testkit"
)

// Plan says how much happens in a run.
type Plan struct {
	Seed       uint64
	Operations int
	Clients    int
	Report     func(format string, args ...any) // of what happens meanwhile
}

// disturbances is when the leader is ended, in parts of the operations, and how.
var disturbances = []struct {
	after  float64
	signal syscall.Signal
}{
	{0.10, syscall.SIGTERM}, {0.22, syscall.SIGTERM}, {0.36, syscall.SIGKILL}, {0.50, syscall.SIGTERM},
	{0.62, syscall.SIGTERM}, {0.74, syscall.SIGKILL}, {0.88, syscall.SIGTERM},
}

// requestTime is how long a client waits for an answer.
const requestTime = 10 * time.Second

// run is one run of all clients.
type run struct {
	plan    Plan
	cluster *Cluster
	store   *clientv3.Client
	began   time.Time

	next  atomic.Int64 // operations handed to clients
	known atomic.Int64 // newest revision any client was told
}

// Execute carries out a plan and returns what the clients saw.
func Execute(ctx context.Context, plan Plan, cluster *Cluster, store *clientv3.Client) ([]*Call, error) {
	r := &run{plan: plan, cluster: cluster, store: store, began: time.Now()}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	records := make([][]*Call, plan.Clients)
	var working sync.WaitGroup
	for client := range plan.Clients {
		working.Go(func() {
			var err error
			if records[client], err = r.client(ctx, client); err != nil {
				cancel(err)
			}
		})
	}
	working.Go(func() {
		if err := r.disturb(ctx); err != nil {
			cancel(err)
		}
	})
	working.Wait()
	var calls []*Call
	for _, record := range records {
		calls = append(calls, record...)
	}
	return calls, context.Cause(ctx)
}

// disturb ends leaders when their time has come.
func (r *run) disturb(ctx context.Context) error {
	for _, d := range disturbances {
		at := int64(d.after * float64(r.plan.Operations))
		if err := testkit.Until(ctx, "operations", func() bool { return r.next.Load() >= at }); err != nil {
			return err
		}
		takeover, err := r.cluster.Disturb(ctx, d.signal)
		if err != nil {
			return err
		}
		r.plan.Report("leader ended with %s, another led after %s", d.signal, takeover.Round(time.Millisecond))
	}
	return nil
}

// client makes calls until all operations are handed out.
func (r *run) client(ctx context.Context, number int) ([]*Call, error) {
	generator := newGenerator(r.plan.Seed, number)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	link := &http.Client{Transport: transport, Timeout: requestTime}
	var record []*Call
	seen := map[string]int64{} // revisions, by key of the store
	for at := number; r.next.Add(1) <= int64(r.plan.Operations); {
		call := &Call{Operation: generator.next(), Client: number, From: r.known.Load(), Start: time.Since(r.began)}
		call.Tag = tagOf(call.Operation, seen)
		for _, member := range call.Members {
			call.tags = append(call.tags, tagOf(member, seen))
		}
		for range members {
			if call.answer(ctx, link, "http://"+r.cluster.nodes[at%members].address) {
				break
			}
			at++ // that one is away
		}
		call.End = time.Since(r.began)
		if err := r.learn(ctx, call); err != nil {
			return record, fmt.Errorf("client %d: %w", number, err)
		}
		call.remember(seen)
		record = append(record, call.each()...)
		if call.Outcome == Unknown {
			at++
		}
	}
	return record, nil
}

// learn notes what a call tells of the store. After an answer that was lost the
// client waits for a leader, so that few calls end without knowledge.
func (r *run) learn(ctx context.Context, call *Call) error {
	switch call.Outcome {
	case Done:
		for known := r.known.Load(); call.Revision > known && !r.known.CompareAndSwap(known, call.Revision); {
			known = r.known.Load()
		}
		call.To = call.Revision
		return nil
	case Refused:
		return testkit.Until(ctx, "the revision of the store", func() bool {
			asking, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			resp, err := r.store.Get(asking, root, clientv3.WithCountOnly())
			if err == nil {
				call.To = resp.Header.Revision
			}
			return err == nil
		})
	}
	_, err := r.cluster.Leader(ctx)
	return err
}
