// Package truth compares what NetworkPolicies do in a cluster of real parts with what
// they say: every pod to every other, by TCP, UDP and SCTP, over IPv4 and IPv6, after each of
// hundreds of changes. It needs what `make k8s-build` builds, and minutes: `make e2e-k8s`.
package truth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/k8s/cluster"
	"github.com/contiv/netplugin/test/k8s/clustertest"
	"github.com/contiv/netplugin/test/k8s/netpol"
	"github.com/contiv/netplugin/test/testkit"
)

type object = map[string]any

// How many policies come, and what chance is made of: to repeat a run.
var (
	policies = flag.Int("policies", 240, "how many policies come")
	theSeed  = flag.Uint64("seed", 0, "seed of the policies; 0: a new one")
)

// Times, on a machine that has other work, too.
const (
	upLimit   = 3 * time.Minute  // for the pods to get their addresses
	stepLimit = 50 * time.Second // for a change to be what every packet sees
	leakLimit = 5 * time.Second  // for it to be so where it denies
)

func TestPacketsFareAsPoliciesSay(t *testing.T) {
	c := clustertest.Up(t, cluster.Config{Nodes: 3}, false)
	api := clustertest.API(t, c)

	b := &bed{Cluster: c, api: api, world: netpol.NewWorld(), now: map[string]string{}}
	t.Cleanup(b.close)
	settling, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	if err := b.makePods(settling); err != nil {
		t.Fatal(err)
	}
	if err := b.settle(t.Context()); err != nil {
		t.Fatalf("without policies: %v", err)
	}
	seed := cmp.Or(*theSeed, rand.Uint64())
	t.Logf("seed %d", seed)
	began := time.Now()
	b.world.Steps(rand.New(rand.NewPCG(seed, 0)), *policies, func(step int) {
		if t.Failed() {
			return
		}
		if end, ok := t.Deadline(); ok && time.Until(end) < upLimit/3 { // for the cluster to end, too
			t.Errorf("the time is over after %d policies", step)
			return
		}
		err := b.change(t.Context())
		if err == nil {
			err = b.settle(t.Context())
		}
		if err != nil {
			said, _ := json.MarshalIndent(b.world.Policies, "", " ") // it is what the API server got
			t.Errorf("step %d: %v\npolicies %s\nnamespaces %v", step, err, said, b.world.Namespaces)
		}
	})
	t.Logf("%d policies, %d probes, %d connections at the second try or later, %d exchanges again, in %.0f s",
		*policies, b.probed, b.redialed, b.again, time.Since(began).Seconds())
}

// settle probes until all results match the policies, or the time is over. A change is one of several objects, so
// packets may still fare by some of the former state; after leakLimit no denied packet may arrive, not once.
func (b *bed) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	changed := time.Now()
	var fault error
	err := testkit.Poll(ctx, func() error {
		began := time.Now()
		missing, leaked := b.exchange(ctx)
		if leaked != nil && began.Sub(changed) > leakLimit {
			fault = leaked
			return nil
		}
		if missing != nil || leaked != nil {
			b.again++
		}
		return errors.Join(missing, leaked)
	})
	return errors.Join(err, fault)
}

// change makes the API server have what the world has, and waits until all switches know of it.
func (b *bed) change(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	before, err := b.epoch(ctx)
	if err != nil {
		return err
	}
	changed, err := b.apply(ctx)
	if err != nil || !changed {
		return err
	}
	return testkit.Poll(ctx, func() error {
		now, err := b.epoch(ctx)
		if err == nil && now == before {
			err = fmt.Errorf("all switches are at epoch %s still", now)
		}
		return err
	})
}

// apply sends the API server what it does not have yet. other reports whether a policy has changed.
func (b *bed) apply(ctx context.Context) (other bool, err error) {
	wanted := map[string]object{} // by path; of existing objects only the labels change
	for name, labels := range b.world.Namespaces {
		wanted["/api/v1/namespaces/"+name] = object{"metadata": object{"labels": labels}}
	}
	for _, p := range b.world.Pods {
		wanted["/api/v1/namespaces/"+p.Namespace+"/pods/"+p.Name] = object{"metadata": object{"labels": p.Labels}}
	}
	for _, p := range b.world.Policies {
		wanted[policiesPath(p.Metadata.Namespace)+"/"+p.Metadata.Name] = object{"metadata": p.Metadata, "spec": p.Spec}
	}
	for path, o := range wanted {
		data, err := json.Marshal(o)
		if err != nil {
			return false, err
		}
		if b.now[path] == string(data) {
			continue
		}
		switch isPolicy := o["spec"] != nil; {
		case !isPolicy:
			err = b.relabel(ctx, path, o)
		case b.now[path] == "":
			other, err = true, b.api.Do(ctx, http.MethodPost, filepath.Dir(path), o, nil)
		default:
			other, err = true, b.api.Do(ctx, http.MethodPut, path, o, nil)
		}
		if err != nil {
			return false, err
		}
		b.now[path] = string(data)
	}
	for path := range b.now {
		if wanted[path] == nil {
			if err := b.api.Do(ctx, http.MethodDelete, path, nil, nil); err != nil {
				return false, err
			}
			delete(b.now, path)
			other = true
		}
	}
	return other, nil
}

// relabel sets an object's labels, and removes the world's others.
func (b *bed) relabel(ctx context.Context, path string, o object) error {
	var there object
	if err := b.api.Do(ctx, http.MethodGet, path, nil, &there); err != nil {
		return err
	}
	metadata, ok := there["metadata"].(object)
	if !ok {
		return fmt.Errorf("%s has no metadata", path)
	}
	labels, _ := metadata["labels"].(object) // there may be none
	if labels == nil {
		labels = object{}
	}
	delete(labels, "app")
	delete(labels, "team")
	for key, value := range o["metadata"].(object)["labels"].(map[string]string) {
		labels[key] = value
	}
	metadata["labels"] = labels
	return b.api.Do(ctx, http.MethodPut, path, there, nil)
}

func policiesPath(namespace string) string {
	return "/apis/networking.k8s.io/v1/namespaces/" + namespace + "/networkpolicies"
}
