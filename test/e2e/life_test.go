package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/testbed"
)

// life is the constant change in a cluster: on the first node pods are added and deleted, and through each
// netmaster the root of its machine creates and deletes endpoints and watches tenants, one of which is created and
// deleted, too. All of it has to succeed.
type life struct {
	stop    context.CancelFunc
	running sync.WaitGroup
	failed  chan string // the first ones

	pods, endpoints, tenants atomic.Int64
	heard                    []*atomic.Int64 // lines about the tenant, by watch
}

// live starts it; pods and endpoints are in an existing network.
func (s story) live(tenant, network string) *life {
	s.Helper()
	ctx, stop := context.WithCancel(s.ctx)
	l := &life{stop: stop, failed: make(chan string, 100)}
	s.Cleanup(func() { stop(); l.running.Wait() })
	for i, n := range s.bed.Nodes {
		root := rootOf(n)
		heard := new(atomic.Int64)
		l.heard = append(l.heard, heard)
		l.running.Go(func() {
			defer root.CloseIdleConnections()
			l.watch(ctx, root, n.Name, heard)
		})
		l.running.Go(func() {
			l.repeat(ctx, endpointPause, &l.endpoints, func(count int) error {
				return endpointComesAndGoes(root, tenant, network, fmt.Sprintf("load-%d-%d", i, count))
			})
		})
	}
	l.running.Go(func() {
		l.repeat(ctx, podPause, &l.pods, func(count int) error {
			return podComesAndGoes(s.ctx, &testbed.Pod{Name: fmt.Sprintf("live%d", count), Node: s.bed.Nodes[0], Tenant: tenant, Network: network})
		})
	})
	root := rootOf(s.bed.Nodes[len(s.bed.Nodes)-1])
	l.running.Go(func() {
		defer root.CloseIdleConnections()
		l.repeat(ctx, tenantPause, &l.tenants, func(int) error {
			return errors.Join(exchange(root, http.MethodPost, "/api/v1/tenants/loop/", `{"tenantName":"loop"}`),
				exchange(root, http.MethodDelete, "/api/v1/tenants/loop/", ""))
		})
	})
	return l
}

// Pauses between two turns leave the processors to the switches: with three netmasters they are 50 endpoints a
// second, and two pods.
const (
	endpointPause = 60 * time.Millisecond
	podPause      = 500 * time.Millisecond
	tenantPause   = 500 * time.Millisecond
)

// repeat calls do repeatedly, and counts the calls.
func (l *life) repeat(ctx context.Context, pause time.Duration, done *atomic.Int64, do func(count int) error) {
	pace := time.NewTicker(pause)
	defer pace.Stop()
	for count := 0; ctx.Err() == nil; count++ {
		if err := do(count); err != nil {
			l.fail(err)
		}
		done.Add(1)
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
}

func (l *life) fail(err error) {
	select {
	case l.failed <- time.Now().UTC().Format(logTime) + " " + err.Error():
	default: // enough is known
	}
}

// watch counts the changes of tenants that one connection receives, until ctx ends.
func (l *life) watch(ctx context.Context, root *http.Client, name string, heard *atomic.Int64) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/api/v1/tenants/?watch=true", http.NoBody)
	if err != nil {
		l.fail(err)
		return
	}
	resp, err := root.Do(req)
	if err != nil {
		l.fail(fmt.Errorf("watch at %s: %w", name, err))
		return
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"loop"`) {
			heard.Add(1)
		}
	}
	if ctx.Err() == nil {
		l.fail(fmt.Errorf("the watch at %s has ended: %s, %v", name, resp.Status, lines.Err()))
	}
}

// end expects that nothing has failed, and that each watch has received everything.
func (l *life) end(s story) {
	s.Helper()
	before := l.tenants.Load()
	s.soon(shortly, func() error { // earlier changes arrive
		if len(l.failed) > 0 {
			return nil // a watch may have ended; the failure is reported below
		}
		for i, heard := range l.heard {
			if heard.Load() < 2*before {
				return fmt.Errorf("the watch at %s has heard %d changes of %d", s.bed.Nodes[i].Name, heard.Load(), 2*before)
			}
		}
		return nil
	})
	l.stop()
	l.running.Wait()
	close(l.failed)
	for failure := range l.failed {
		s.Errorf("failed: %s", failure)
	}
	s.Logf("%d pods and %d endpoints have come and gone, a tenant %d times", l.pods.Load(), l.endpoints.Load(), l.tenants.Load())
	if l.pods.Load() == 0 || l.endpoints.Load() == 0 || l.tenants.Load() == 0 {
		s.Error("there was no life")
	}
}

// exchange makes one request, which has to succeed.
func exchange(client *http.Client, method, path, body string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s: %s, %v", method, path, resp.Status, answer, err)
	}
	return nil
}

func endpointComesAndGoes(root *http.Client, tenant, network, container string) error {
	made, err := json.Marshal(mastercfg.CreateEndpointRequest{TenantName: tenant, NetworkName: network,
		ConfigEP: mastercfg.ConfigEP{Host: "load", Container: container}})
	if err != nil {
		return err
	}
	gone, err := json.Marshal(mastercfg.DeleteEndpointRequest{TenantName: tenant, NetworkName: network, EndpointID: container})
	if err != nil {
		return err
	}
	return errors.Join(exchange(root, http.MethodPost, mastercfg.CreateEndpointPath, string(made)),
		exchange(root, http.MethodPost, mastercfg.DeleteEndpointPath, string(gone)))
}

// podComesAndGoes leaves nothing of the pod, however it ended.
func podComesAndGoes(ctx context.Context, pod *testbed.Pod) error {
	if err := pod.MakeSandbox(ctx); err != nil {
		return err
	}
	return errors.Join(pod.Attach(ctx), pod.Delete(ctx))
}
