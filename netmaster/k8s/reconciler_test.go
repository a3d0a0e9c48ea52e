package k8s

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

func TestTheFirstChangeIsLookedAtAtOnceAndThoseSoonAfterItTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rest = 10 * time.Millisecond
		began := time.Now()
		var mu sync.Mutex
		looks := map[string][]time.Duration{}
		w := &reconciler{kind: "service", workers: 2, rest: rest, reconcile: func(_ context.Context, key string) (time.Duration, error) {
			mu.Lock()
			defer mu.Unlock()
			looks[key] = append(looks[key], time.Since(began))
			return 0, nil
		}}
		c := &Controller{cfg: Config{Metrics: NewMetrics(), Log: testkit.Quiet()}}
		w.lag = newLag(c.cfg.Metrics.waiting.WithLabelValues(w.kind))
		if err := w.subscribe(); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { c.run(ctx, w) })
		defer running.Wait()
		defer stop()
		want := func(key string, times ...time.Duration) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(looks[key], times) {
				t.Errorf("%s was looked at after %v, want %v", key, looks[key], times)
			}
		}

		w.mark("web")
		want("web", 0)
		for range 5 { // a burst, and another service meanwhile
			time.Sleep(time.Millisecond)
			w.mark("web")
		}
		w.mark("mail")
		want("web", 0)
		want("mail", 5*time.Millisecond)
		time.Sleep(time.Second)
		want("web", 0, rest)
		want("mail", 5*time.Millisecond)
		at := time.Since(began)
		w.mark("web")
		want("web", 0, rest, at)
	})
}
