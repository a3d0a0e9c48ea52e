package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/images"
	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	podTurns     = 4   // of each side: pods one after the other, then many at once
	podsInATurn  = 32  // one after the other, so many that the 99th percentile is not only the slowest one
	podsAtOnce   = 100 // in all turns except the first
	podLimit     = 4 * time.Minute
	podGoal      = 1.1
	podsOnceGoal = 1.0

	podsPath = "/api/v1/namespaces/default/pods"
)

// side is the network implementation of pods.
type side string

const (
	ours   side = "ours"
	theirs side = "bridge + host-local"
)

// podBench measures how long pods take on a node of a cluster, from the request to the API server until it reports
// them as ready.
type podBench struct {
	*cluster.Cluster
	api   *cluster.API
	node  *testbed.Node
	seen  *podStates
	count int // number of pods so far

	single, once map[side][]time.Duration
	strays       map[side][]string // pods created for the other side
}

// benchKubePods compares that with pods in a network of the CNI project's bridge and host-local, on the same node,
// alternating. The project's leader knows every pod; pods of the reference have nothing of the project on the
// node.
func benchKubePods(ctx context.Context, c *cluster.Cluster) (_ []figure, err error) {
	api, err := c.API()
	if err != nil {
		return nil, err
	}
	defer api.Close()
	b := &podBench{Cluster: c, api: api, node: c.Nodes[len(c.Nodes)-1], seen: watchPods(ctx, api),
		single: map[side][]time.Duration{}, once: map[side][]time.Duration{}, strays: map[side][]string{}}
	defer b.seen.stop()
	for turn := range podTurns {
		for _, s := range []side{ours, theirs} {
			if err := b.turn(ctx, s, turn > 0); err != nil {
				return nil, fmt.Errorf("turn %d of %s: %w", turn, s, err)
			}
		}
	}
	var list []figure
	list = append(list,
		compared("pod until it is ready, p50", median(b.single[ours]), median(b.single[theirs]), podGoal),
		compared(fmt.Sprintf("pod until it is ready, p99 of %d", len(b.single[ours])), scenario.Percentile(b.single[ours], 99), scenario.Percentile(b.single[theirs], 99), podGoal))
	once := compared(fmt.Sprintf("%d pods at once on a node until all are ready, median of %d", podsAtOnce, len(b.once[ours])), median(b.once[ours]), median(b.once[theirs]), podsOnceGoal)
	once.Value, once.Reference = once.Value+each(b.once[ours]), once.Reference+each(b.once[theirs])
	return append(list, once), nil
}

func compared(name string, mine, reference time.Duration, goal float64) figure {
	ratio := float64(mine) / float64(reference)
	return figure{Name: name, Value: inMS(mine), Reference: string(theirs) + " " + inMS(reference), Ratio: fmt.Sprintf("%.2f", ratio),
		Goal: fmt.Sprintf("at most %.1f", goal), Met: ratio <= goal}
}

// each lists the measured times, in order.
func each(all []time.Duration) string {
	var texts []string
	for _, one := range all {
		texts = append(texts, inMS(one))
	}
	return " (" + strings.Join(texts, ", ") + ")"
}

// turn measures one side: some pods one after the other, and many at once. Before, the other side's pods are out
// of the way, and the runtime has reloaded its configuration.
func (b *podBench) turn(ctx context.Context, s side, many bool) error {
	ctx, cancel := context.WithTimeout(ctx, podLimit)
	defer cancel()
	if err := b.choose(ctx, s); err != nil {
		return err
	}
	if err := settle(ctx); err != nil {
		return err
	}
	var names []string
	for range podsInATurn {
		names = append(names, b.name())
		took, err := b.run(ctx, names[len(names)-1:])
		if err != nil {
			return err
		}
		b.single[s] = append(b.single[s], took)
	}
	if err := b.end(ctx, names); err != nil {
		return err
	}
	if many {
		if err := settle(ctx); err != nil {
			return err
		}
		names = nil
		for range podsAtOnce {
			names = append(names, b.name())
		}
		took, err := b.run(ctx, names)
		if err != nil {
			return err
		}
		b.once[s] = append(b.once[s], took)
		return b.end(ctx, names)
	}
	return nil
}

// choose selects the side of new pods. A pod of the other side is retained until that side is selected again,
// since only its plugin can release its resources.
func (b *podBench) choose(ctx context.Context, s side) error {
	change := func() error { return b.Refer(ctx, b.node, "bridge") }
	if s == ours {
		change = func() error { return b.Unrefer(ctx, b.node) }
	}
	if err := change(); err != nil {
		return err
	}
	if err := testkit.Poll(ctx, func() error { // the runtime reloads its configuration at some time
		name := b.name()
		if _, err := b.run(ctx, []string{name}); err != nil {
			return err
		}
		address, of := b.seen.state(name).address, ours
		if strings.HasPrefix(address, cluster.ReferenceAddresses) {
			of = theirs
		}
		b.strays[of] = append(b.strays[of], name)
		if of != s {
			return fmt.Errorf("pod %s has %s, which is not an address of %s", name, address, s)
		}
		return nil
	}); err != nil {
		return err
	}
	strays := b.strays[s]
	delete(b.strays, s)
	return b.end(ctx, strays)
}

func (b *podBench) name() string {
	b.count++
	return "bench-" + strconv.Itoa(b.count)
}

// run creates pods and returns how long it takes until all are ready.
func (b *podBench) run(ctx context.Context, names []string) (time.Duration, error) {
	began := time.Now()
	if _, err := spread(ctx, 16, len(names), func(ctx context.Context, i int) error { return b.create(ctx, names[i]) }); err != nil {
		return 0, err
	}
	var last time.Time
	err := b.seen.wait(ctx, names, func(s podState) bool {
		if s.ready.After(last) {
			last = s.ready
		}
		return !s.ready.IsZero()
	})
	return last.Sub(began), err
}

// end deletes pods and waits until the API server no longer has them: then their sandboxes are removed.
func (b *podBench) end(ctx context.Context, names []string) error {
	if _, err := spread(ctx, 16, len(names), func(ctx context.Context, i int) error {
		return b.api.Do(ctx, http.MethodDelete, podsPath+"/"+names[i], map[string]any{}, nil)
	}); err != nil {
		return err
	}
	return b.seen.wait(ctx, names, func(s podState) bool { return s.gone })
}

func (b *podBench) create(ctx context.Context, name string) error {
	type object = map[string]any
	return b.api.Do(ctx, http.MethodPost, podsPath, object{
		"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": name},
		"spec": object{"nodeName": b.node.Name, "containers": []object{{"name": "c", "image": images.Pause}},
			"terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false},
	}, nil)
}

// podState is the observed state of a pod.
type podState struct {
	ready   time.Time // when it was first seen to be ready
	address string
	gone    bool
}

// seePod records the state of a pod that the API server reports.
func (s *podState) seePod(object json.RawMessage, gone bool) (name string, err error) {
	var pod struct {
		Metadata struct{ Name string }
		Status   struct {
			PodIP      string
			Conditions []struct{ Type, Status string }
		}
	}
	if err := json.Unmarshal(object, &pod); err != nil {
		return "", err
	}
	s.gone, s.address = gone, pod.Status.PodIP
	for _, c := range pod.Status.Conditions {
		if c.Type == "Ready" && c.Status == "True" {
			s.ready = time.Now()
		}
	}
	return pod.Metadata.Name, nil
}
