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

// Plan is the amount of work in a run.
type Plan struct {
	Seed       uint64
	Scale      Scale
	Operations int
	Clients    int
	Began      time.Time                        // the origin of times; zero: the start of this run
	Calm       bool                             // without disturbances
	Report     func(format string, args ...any) // logs events of the run
}

// disturbances are what is done to the netmasters, and when, as a fraction of the operations.
var disturbances = []struct {
	after float64
	what  string
	do    func(*Cluster, context.Context) (time.Duration, error)
}{
	{0.08, "the leader was told to end; another led", ended(syscall.SIGTERM)},
	{0.18, "the leader was killed; another led", ended(syscall.SIGKILL)},
	{0.30, "the leader stood still for longer than its term; another led", (*Cluster).Suspend},
	{0.42, "the store was away; all served again", (*Cluster).Interrupt},
	{0.52, "the leader was told to end; another led", ended(syscall.SIGTERM)},
	{0.60, "the store was away; all served again", (*Cluster).Interrupt},
	{0.70, "the leader stood still for longer than its term; another led", (*Cluster).Suspend},
	{0.80, "the leader was killed; another led", ended(syscall.SIGKILL)},
	{0.90, "the leader was told to end; another led", ended(syscall.SIGTERM)},
}

func ended(signal syscall.Signal) func(*Cluster, context.Context) (time.Duration, error) {
	return func(c *Cluster, ctx context.Context) (time.Duration, error) { return c.Disturb(ctx, signal) }
}

// requestTime is how long a client waits for a response.
const requestTime = 10 * time.Second

// run is one run of all clients.
type run struct {
	plan    Plan
	cluster *Cluster
	store   *clientv3.Client
	began   time.Time

	next  atomic.Int64 // operations handed to clients
	known atomic.Int64 // newest revision returned to any client
}

// Execute executes a plan and returns the calls of the clients.
func Execute(ctx context.Context, plan Plan, cluster *Cluster, store *clientv3.Client) ([]*Call, error) {
	r := &run{plan: plan, cluster: cluster, store: store, began: plan.Began}
	if r.began.IsZero() {
		r.began = time.Now()
	}
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
	var rests []rest
	resting, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { rests = r.rests(resting) })
	working.Wait()
	end()
	beside.Wait()
	var calls []*Call
	for _, record := range records {
		calls = append(calls, record...)
	}
	bound(calls, rests)
	return calls, context.Cause(ctx)
}

// disturb disturbs the netmasters when it is time.
func (r *run) disturb(ctx context.Context) error {
	if r.plan.Calm {
		return nil
	}
	for _, d := range disturbances {
		at := int64(d.after * float64(r.plan.Operations))
		if err := testkit.Until(ctx, "operations", func() bool { return r.next.Load() >= at }); err != nil {
			return err
		}
		took, err := d.do(r.cluster, ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", d.what, err)
		}
		r.plan.Report("%s after %s", d.what, took.Round(time.Millisecond))
	}
	return nil
}

// client makes calls until all operations are handed out.
func (r *run) client(ctx context.Context, number int) ([]*Call, error) {
	generator := newGenerator(r.plan.Seed, r.plan.Scale, number)
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
			at++ // that one is down
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

// learn records the revisions in a call's response. After a lost response the client waits for a leader, so that
// few calls have an unknown outcome.
func (r *run) learn(ctx context.Context, call *Call) (err error) {
	switch call.Outcome {
	case Done:
		for known := r.known.Load(); call.Revision > known && !r.known.CompareAndSwap(known, call.Revision); {
			known = r.known.Load()
		}
		call.To = call.Revision
		return nil
	case Refused:
		call.To, err = r.revision(ctx)
		return err
	}
	_, err = r.cluster.Leader(ctx)
	return err
}

// revision returns the present revision of the store.
func (r *run) revision(ctx context.Context) (present int64, err error) {
	err = testkit.Until(ctx, "the revision of the store", func() bool {
		asking, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		resp, err := r.store.Get(asking, root, clientv3.WithCountOnly())
		if err == nil {
			present = resp.Header.Revision
		}
		return err == nil
	})
	return present, err
}
