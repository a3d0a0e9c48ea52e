package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/kubeapi"
	"github.com/contiv/netplugin/test/testkit"
)

// timedFigure is a figure with the time that it is about.
type timedFigure struct {
	figure
	took time.Duration
}

// atOnce puts objects all at once, again and again, and tells how long it takes until the switch has all
// flows for them. keys is how many there are in the state then.
func (b *kubeBed) atOnce(ctx context.Context, objects []kubeapi.Object, prefix string, keys int) (f timedFigure, err error) {
	state := b.follow(ctx, mastercfg.StateRoot)
	defer state.stop()
	var all int
	var took, written []time.Duration
	for i := range 1 + nodeColds {
		began := time.Now()
		if err := b.api.Put(objects...); err != nil {
			return f, err
		}
		if err := testkit.Until(ctx, "the state has all", func() bool { return state.known(prefix) >= keys }); err != nil {
			return f, err
		}
		stated := time.Since(began)
		if i == 0 {
			if all, err = b.settle(ctx, state); err != nil {
				return f, err
			}
		} else {
			if err := testkit.Until(ctx, fmt.Sprintf("%d flows", all), func() bool {
				now, err := b.flows(ctx)
				return err == nil && now >= all
			}); err != nil {
				return f, err
			}
			took, written = append(took, time.Since(began)), append(written, stated)
		}
		if i == nodeColds {
			break
		}
		if err := b.api.Delete(objects...); err != nil {
			return f, err
		}
		if err := testkit.Until(ctx, "the state has none", func() bool { return state.known(prefix) == 0 }); err != nil {
			return f, err
		}
		if _, err := b.settle(ctx, state); err != nil {
			return f, err
		}
	}
	f.took = median(took)
	f.Value, f.Reference = fmt.Sprintf("%s (%d flows)", inMS(f.took), all), "until the state has them "+inMS(median(written))
	f.Ratio = fmt.Sprintf("%.1f", float64(f.took)/float64(median(written)))
	return f, nil
}

// followed is what the state has of a prefix.
type followed struct {
	mirror *mirror.Mirror
	stop   func()

	mu       sync.Mutex
	keys     map[string]struct{}
	revision int64     // of the last change
	changed  time.Time // when that came
}

func (b *kubeBed) follow(ctx context.Context, prefix string) *followed {
	ctx, cancel := context.WithCancel(ctx)
	f := &followed{keys: map[string]struct{}{}}
	f.mirror = mirror.New(b.db, prefix, f.take)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f.mirror.Run(ctx) // ends with the context's error
	}()
	f.stop = func() {
		cancel()
		<-ended
	}
	return f
}

func (f *followed) take(batch mirror.Batch) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.revision, f.changed = batch.Revision, time.Now()
	for _, e := range batch.Events {
		if f.keys[e.Key] = struct{}{}; e.Value == nil {
			delete(f.keys, e.Key)
		}
	}
}

// known counts the keys of a prefix.
func (f *followed) known(prefix string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.keys {
		if strings.HasPrefix(key, prefix) {
			n++
		}
	}
	return n
}

// last is the revision of the last change, and when it came.
func (f *followed) last() (revision int64, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision, f.changed
}

// changedAfter is when the last change came, which is awaited if that was before a time: what the
// agent has read and programmed may not have come here yet.
func (f *followed) changedAfter(ctx context.Context, began time.Time) (at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = testkit.Poll(ctx, func() error {
		if _, at = f.last(); !at.After(began) {
			return fmt.Errorf("the state has not changed since %s", began.Format(time.RFC3339Nano))
		}
		return nil
	})
	return at, err
}

// settleTime is far more than anything here takes.
const settleTime = time.Minute

// settle waits until the leader has written all that it knows, the agent has read that, and the switch has it.
func (b *kubeBed) settle(ctx context.Context, state *followed) (flows int, err error) {
	soon, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	err = testkit.Poll(soon, func() error {
		waiting, err := b.metric(ctx, b.url, "netmaster_kubernetes_waiting")
		if err != nil || waiting > 0 {
			return cmp.Or(err, fmt.Errorf("%.0f objects are not written yet", waiting))
		}
		_, now, err := b.db.List(ctx, mastercfg.K8sNodePrefix) // of few keys, for the store's revision
		if err == nil {
			err = state.mirror.WaitRevision(ctx, now)
		}
		if err != nil {
			return err
		}
		wanted, _ := state.last()
		seen, err := b.metric(ctx, agentURL, `netplugin_watch_revision{prefix="`+mastercfg.StateRoot+`"}`)
		if err != nil || int64(seen) < wanted {
			return cmp.Or(err, fmt.Errorf("the agent has read revision %.0f, the state has %d", seen, wanted))
		}
		inSync, err := b.metric(ctx, agentURL, "netplugin_switch_in_sync")
		if err == nil && inSync == 0 {
			err = errors.New("the switch is not in sync")
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return b.flows(ctx)
}

// agentURL is where the agent of the node tells how it is.
const agentURL = "http://127.0.0.1:9090"

// metric is the sum of those whose name and labels begin with a text.
func (b *kubeBed) metric(ctx context.Context, url, name string) (sum float64, err error) {
	body, err := get(ctx, http.DefaultClient, url+"/metrics") // b.http asks netmaster, whatever the URL
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:len(rest)-1], 64)
			if err != nil {
				return 0, err
			}
			sum, found = sum+value, true
		}
	}
	if !found {
		return 0, fmt.Errorf("%s/metrics has no %s", url, name)
	}
	return sum, nil
}

// flows counts those of the switch.
func (b *kubeBed) flows(ctx context.Context) (int, error) {
	out, err := command(ctx, flowsCommand...)
	if err != nil {
		return 0, err
	}
	return flowsIn(out)
}
