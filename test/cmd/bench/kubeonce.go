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

// timedFigure is a figure with its time.
type timedFigure struct {
	figure
	took time.Duration
}

// atOnce repeatedly adds objects all at once, and measures how long it takes until the switch has all their flows.
// keys is the number of their keys in the state.
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

// followed mirrors a prefix of the state.
type followed struct {
	mirror *mirror.Mirror
	stop   func()

	mu       sync.Mutex
	keys     map[string]struct{}
	revision int64     // of the last change
	changed  time.Time // when that arrived
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

// last returns the revision of the last change, and its time of arrival.
func (f *followed) last() (revision int64, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.revision, f.changed
}

// changedAfter returns when the last change arrived, and waits for one if that was before began: this mirror may
// be behind the agent.
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

// settle waits until the leader has written all its changes, the agent has read them, and the switch has them.
func (b *kubeBed) settle(ctx context.Context, state *followed) (flows int, err error) {
	soon, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	err = testkit.Poll(soon, func() error {
		waiting, err := b.metric(ctx, b.url, "netmaster_kubernetes_waiting")
		if err != nil || waiting > 0 {
			return cmp.Or(err, fmt.Errorf("%.0f objects are not written yet", waiting))
		}
		_, now, err := b.db.List(ctx, mastercfg.K8sNodePrefix) // few keys, to get the store's revision
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

// agentURL is the agent's URL for metrics on its node.
const agentURL = "http://127.0.0.1:9090"

// metric returns the sum of the metrics whose name and labels begin with a text.
func (b *kubeBed) metric(ctx context.Context, url, name string) (sum float64, err error) {
	body, err := get(ctx, http.DefaultClient, url+"/metrics") // b.http connects to netmaster for every URL
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

// flows returns the number of flows of the switch.
func (b *kubeBed) flows(ctx context.Context) (int, error) {
	out, err := command(ctx, flowsCommand...)
	if err != nil {
		return 0, err
	}
	return flowsIn(out)
}
