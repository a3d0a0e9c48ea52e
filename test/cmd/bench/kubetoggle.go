package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/test/kubeapi"
	"github.com/contiv/netplugin/test/scenario"
)

// echoPort is the echo port of the first pod.
const echoPort = 7

// steady is how long a client's connectivity must have been stable before a change: longer than a reply may take.
const steady = 150 * time.Millisecond

// toggled has the times of many changes.
type toggled struct {
	seen   []time.Duration // until a client's replies from the server stopped, or resumed
	stated []time.Duration // until the state had it
	bare   []time.Duration // a plain transaction in the same store after each: the minimum for any state change
	spent  []figure        // processor time, by process
}

// figures compares the two.
func (t toggled) figures(name string, goal time.Duration) []figure {
	p99, reference := scenario.Percentile(t.seen, 99), scenario.Percentile(t.stated, 99)
	return append([]figure{{
		Name: name, Value: inMS(p99) + " (p50 " + inMS(scenario.Percentile(t.seen, 50)) + ")",
		Reference: "until the state has it " + inMS(reference) + " (p50 " + inMS(scenario.Percentile(t.stated, 50)) + "), a transaction " +
			inMS(scenario.Percentile(t.bare, 99)) + " (p50 " + inMS(scenario.Percentile(t.bare, 50)) + ")",
		Ratio: fmt.Sprintf("%.1f", float64(p99)/float64(reference)), Goal: "at most " + inMS(goal), Met: p99 <= goal,
	}}, t.spent...)
}

// toggle alternates between two objects, which changes something below a prefix of the state, and measures how
// long it takes until a client's replies from the server stop, or resume.
func (b *kubeBed) toggle(ctx context.Context, prefix string, server, client *corev1.Pod, address string, closed, open kubeapi.Object) (t toggled, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	echo := exec.CommandContext(ctx, "ip", "netns", "exec", server.Name, tool("probe"), "serve", "-udp", fmt.Sprint(echoPort))
	if err := echo.Start(); err != nil {
		return t, err
	}
	defer func() {
		cancel()
		_ = echo.Wait() // it is ended by the signal
	}()
	state := b.follow(ctx, prefix)
	defer state.stop()
	if err := b.api.Put(open); err != nil {
		return t, err
	}
	w, err := scenario.StartWatchBy(ctx, client.Name, func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "ip", "netns", "exec", client.Name, tool("probe"), "watch", "-to", fmt.Sprintf("%s:%d", address, echoPort), "-for", "5m")
	})
	if err != nil {
		return t, err
	}
	defer w.Stop()
	effort := newEffort("netmaster", "netplugin")
	effort.begin()
	for i := range nodeChanges {
		object, answered := closed, false
		if i%2 == 1 {
			object, answered = open, true
		}
		if err := w.AwaitSteady(ctx, !answered, steady); err != nil {
			return t, err
		}
		began := time.Now()
		if err := b.api.Put(object); err != nil {
			return t, err
		}
		at, err := w.Await(ctx, answered)
		if err != nil {
			return t, err
		}
		stated, err := state.changedAfter(ctx, began)
		if err != nil {
			return t, err
		}
		bare, err := timed(func() error { return b.raw(ctx, 1, func(t *objdb.Txn, kv objdb.KV) { t.Puts = append(t.Puts, kv) }) })
		if err != nil {
			return t, err
		}
		t.seen, t.stated, t.bare = append(t.seen, max(0, at.Sub(began))), append(t.stated, stated.Sub(began)), append(t.bare, bare)
	}
	effort.end()
	t.spent = effort.figures("", nodeChanges)
	return t, nil
}
