package main

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/contiv/netplugin/test/k8s/cluster"
)

// podStates watches the pods of a namespace.
type podStates struct {
	stop func()

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	states  map[string]podState
	err     error // why the watch has ended
}

func watchPods(ctx context.Context, api *cluster.API) *podStates {
	ctx, cancel := context.WithCancel(ctx)
	p := &podStates{changed: make(chan struct{}), states: map[string]podState{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := api.Watch(ctx, podsPath, p.take)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = errors.Join(err, ctx.Err())
		p.tell()
	}()
	p.stop = func() {
		cancel()
		<-ended
	}
	return p
}

// take records a change of a pod.
func (p *podStates) take(object json.RawMessage, gone bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var now podState
	name, err := now.seePod(object, gone)
	if err != nil {
		return err
	}
	if before := p.states[name]; !before.ready.IsZero() {
		now.ready = before.ready
	}
	p.states[name] = now
	p.tell()
	return nil
}

// tell wakes waiting callers. The caller holds the mutex.
func (p *podStates) tell() {
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *podStates) state(name string) podState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.states[name]
}

// wait waits until a condition holds for all of these pods.
func (p *podStates) wait(ctx context.Context, names []string, holds func(podState) bool) error {
	for {
		p.mu.Lock()
		all, changed, err := true, p.changed, p.err
		for _, name := range names {
			all = holds(p.states[name]) && all
		}
		p.mu.Unlock()
		if all || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
