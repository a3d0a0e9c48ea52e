package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/mirror"
	"github.com/contiv/netplugin/test/kubeapi"
	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
)

const (
	kubeNamespaces = 200
	kubeNodes      = 100
	podsOfApp      = 5
	appsIn         = 10 // in a namespace; each is a service and has a policy

	kubeChanges    = 300
	kubeMemoryGoal = 500 // MiB
	kubeChangeGoal = 20 * time.Millisecond
)

// benchKubeLeader makes the leader watch an API server with 10,000 pods, 2,000 policies and 2,000 services, and
// reads its anonymous memory, its etcd member included. Then labels of pods change, one after the other: it
// measures the time until the pod's record has its new class. The reference is a plain transaction in the same
// store after each.
func benchKubeLeader(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	leader, err := bed.Leader(ctx)
	if err != nil {
		return nil, err
	}
	m := memoryOf(ctx, leader.Netmaster().PID)
	figures, err := insideLeader("kubeleader")(ctx, bed)
	before, after, most, memErr := m.finish()
	if err := errors.Join(err, memErr); err != nil {
		return nil, err
	}
	return append([]figure{{
		Name:  fmt.Sprintf("netmaster, %d pods, %d policies, %d services of Kubernetes", kubeNamespaces*appsIn*podsOfApp, kubeNamespaces*appsIn, kubeNamespaces*appsIn),
		Value: fmt.Sprintf("%.0f MiB (at most %.0f)", after, most), Reference: fmt.Sprintf("before %.0f MiB", before), Ratio: "-",
		Goal: fmt.Sprintf("at most %d MiB", kubeMemoryGoal), Met: most <= kubeMemoryGoal,
	}}, figures...), nil
}

// crowdOf returns a cluster with many pods, policies and services.
func crowdOf() (objects []kubeapi.Object, pods []*corev1.Pod) {
	objects = append(objects, kubeRange("10.96.0.0/16"))
	for i := range kubeNodes {
		objects = append(objects, kubeNode(fmt.Sprintf("worker%d", i), addressIn("203.0.%d.%d", 1+i)))
	}
	for n := range kubeNamespaces {
		namespace := fmt.Sprintf("space%d", n)
		objects = append(objects, kubeNamespace(namespace))
		for a := range appsIn {
			number := n*appsIn + a
			app := appName(a)
			var behind []*corev1.Pod
			for k := range podsOfApp {
				i := number*podsOfApp + k
				behind = append(behind, kubePod(namespace, fmt.Sprintf("%s-%d", app, k), fmt.Sprintf("worker%d", i%kubeNodes), addressIn("10.128.%d.%d", 256+i),
					map[string]string{"app": app}))
			}
			for _, p := range behind {
				objects = append(objects, p)
			}
			service := kubeService(namespace, app, addressIn("10.96.%d.%d", 256+number), 80)
			objects = append(objects, service, kubeSlice(service, 8080, behind...),
				kubePolicy(namespace, app, app, []string{appName((a + 1) % appsIn), appName((a + 2) % appsIn)}, fmt.Sprintf("space%d", (n+1)%kubeNamespaces), 8080))
			pods = append(pods, behind...)
		}
	}
	return objects, pods
}

func appName(i int) string { return fmt.Sprintf("app%d", i) }

// measureKubeLeader runs the API server of benchKubeLeader, and measures.
func measureKubeLeader(ctx context.Context, s *site) ([]figure, error) {
	api, stop, err := serveKube()
	if err != nil {
		return nil, err
	}
	defer stop()
	objects, pods := crowdOf()
	if err := api.Put(objects...); err != nil {
		return nil, err
	}
	records := watchRecords(ctx, s)
	defer records.stop()
	placed := time.Now()
	if err := records.wait(ctx, "all pods have classes", func() bool { return records.classed == len(pods) }); err != nil {
		return nil, err
	}
	cold := time.Since(placed)
	if err := quiet(ctx); err != nil {
		return nil, err
	}
	var took, bare []time.Duration
	effort := newEffort("netmaster")
	effort.begin()
	for i := range kubeChanges {
		pod := pods[i*len(pods)/kubeChanges].DeepCopy()
		key := mastercfg.K8sPodKey(pod.Spec.NodeName, string(pod.UID))
		class := records.class(key)
		pod.Labels["app"] = appName(i % appsIn)
		if pod.Labels["app"] == pods[i*len(pods)/kubeChanges].Labels["app"] {
			pod.Labels["app"] = "none"
		}
		t, err := timed(func() error {
			if err := api.Put(pod); err != nil {
				return err
			}
			return records.wait(ctx, "pod "+pod.Name+" has another class", func() bool { return records.classes[key] != class })
		})
		if err != nil {
			return nil, err
		}
		took = append(took, t)
		if t, err = timed(func() error { return s.raw(ctx, 1, func(t *objdb.Txn, kv objdb.KV) { t.Puts = append(t.Puts, kv) }) }); err != nil {
			return nil, err
		}
		bare = append(bare, t)
	}
	effort.end()
	spent := effort.figures(", the transaction included", kubeChanges)
	p50, p99 := scenario.Percentile(took, 50), scenario.Percentile(took, 99)
	return append([]figure{{
		Name: "a pod's label to its class in the state, p99", Value: inMS(p99) + " (p50 " + inMS(p50) + ")",
		Reference: "a transaction " + inMS(scenario.Percentile(bare, 99)) + " (p50 " + inMS(scenario.Percentile(bare, 50)) + ")",
		Ratio:     fmt.Sprintf("%.1f", float64(p99)/float64(scenario.Percentile(bare, 99))), Goal: "at most " + inMS(kubeChangeGoal), Met: p99 <= kubeChangeGoal,
	}, {
		Name: "all of these in the state, from nothing", Value: inMS(cold), Reference: "none", Ratio: "-", Goal: "none", Met: true,
	}}, spent...), nil
}

// serveKube starts the simulated API server.
func serveKube() (api *kubeapi.Server, stop func(), err error) {
	if api, err = kubeapi.New(); err != nil {
		return nil, nil, err
	}
	listener, err := net.Listen("tcp", kubeAddress)
	if err != nil {
		return nil, nil, err
	}
	server := &http.Server{Handler: api}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener) // until it is closed
	}()
	return api, func() {
		_ = server.Close()
		<-ended
	}, nil
}

// records are the records of pods in the state, kept up to date.
type records struct {
	stop func()

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	classes map[string]uint16
	classed int // number of records with a class
}

func watchRecords(ctx context.Context, s *site) *records {
	ctx, cancel := context.WithCancel(ctx)
	r := &records{changed: make(chan struct{}), classes: map[string]uint16{}}
	m := mirror.New(s.db, mastercfg.K8sPodPrefix, r.take)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Run(ctx) // ends with the context's error
	}()
	r.stop = func() {
		cancel()
		<-ended
	}
	return r
}

// take applies changes.
func (r *records) take(b mirror.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range b.Events {
		if r.classes[e.Key] != 0 {
			r.classed--
		}
		if r.classes[e.Key] = classIn(e.Value); r.classes[e.Key] != 0 {
			r.classed++
		}
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *records) class(key string) uint16 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.classes[key]
}

// recordsLimit limits the wait for records.
const recordsLimit = 5 * time.Minute

// wait waits until a condition on the records holds.
func (r *records) wait(ctx context.Context, what string, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, recordsLimit)
	defer cancel()
	for {
		r.mu.Lock()
		done, changed := holds(), r.changed
		r.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s", recordsLimit, what)
		}
	}
}

// classIn returns the class in a pod's record; 0: none.
func classIn(record []byte) uint16 {
	var pod mastercfg.K8sPod
	if json.Unmarshal(record, &pod) != nil || !pod.Classed {
		return 0 // deleted, or incomplete
	}
	return pod.Class
}
