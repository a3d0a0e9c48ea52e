package k8splugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/test/fakenode"
)

func TestAddsThatHangKeepNoOtherCommandWaiting(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	for _, pod := range []string{"pod", "stale"} {
		do(t, node, request(cniwire.Add, pod, fakenode.NewNamespace(t), ""))
	}
	const running, waiting, refusedAtOnce = 64, 64, 12
	begun, release := make(chan struct{}, running), make(chan struct{})
	node.Cluster.Watch(func(call string) {
		if call == fakenode.CreateEndpoint {
			begun <- struct{}{}
			<-release
		}
	})
	var hanging sync.WaitGroup
	refusals := make(chan error, running+waiting+refusedAtOnce)
	for i := range running + waiting + refusedAtOnce {
		hanging.Go(func() {
			add := request(cniwire.Add, fmt.Sprintf("hang%d", i), netns, "")
			add.IfName = fmt.Sprintf("net%d", i)
			if _, err := node.Do(add); err != nil {
				refusals <- err
			}
		})
	}
	t.Cleanup(hanging.Wait)
	released := sync.OnceFunc(func() { close(release) })
	t.Cleanup(released)
	for range running {
		<-begun
	}
	for range refusedAtOnce { // 64 run, 64 wait, the rest is refused at once
		<-refusals
	}

	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second) // those that wait fail after a minute
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, r := range []cniwire.Request{
			{Command: cniwire.Status, Stdin: []byte(conf)},
			request(cniwire.Del, "pod", "", ""),
			request(cniwire.Del, "stale", "", ""),
			{Command: cniwire.GC, Stdin: []byte(conf)},
		} {
			if _, err := node.Do(r); err != nil {
				t.Errorf("%s: %v", r.Command, err)
			}
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		t.Error("DEL, STATUS and GC wait for ADDs that hang")
	}
	released()
	hanging.Wait()
	<-done
}

// A node with hanging DELs still answers STATUS, and accepts other DELs: those are queued, and carried out later.
func TestDelsThatHangKeepNeitherStatusNorOtherDelsWaiting(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	for _, pod := range []string{"pod", "other"} {
		do(t, node, request(cniwire.Add, pod, fakenode.NewNamespace(t), ""))
	}
	const running, waiting, beyond = 64, 64, 12
	release := make(chan struct{})
	node.Cluster.Watch(func(call string) {
		if call == fakenode.DeleteEndpoint {
			<-release
		}
	})
	var hanging sync.WaitGroup
	answers := make(chan error, running+waiting+beyond)
	for range running + waiting + beyond {
		hanging.Go(func() {
			_, err := node.Do(request(cniwire.Del, "pod", "", ""))
			answers <- err
		})
	}
	t.Cleanup(hanging.Wait)
	released := sync.OnceFunc(func() { close(release) })
	t.Cleanup(released)
	for range beyond { // 64 run, 64 wait, the rest is answered at once
		if err := <-answers; err != nil {
			t.Errorf("DEL: %v", err)
		}
	}
	for _, r := range []cniwire.Request{{Command: cniwire.Status, Stdin: []byte(conf)}, request(cniwire.Del, "other", "", "")} {
		if _, err := node.Do(r); err != nil {
			t.Errorf("%s: %v", r.Command, err)
		}
	}
	// Its host ports are free, however long it takes to undo it.
	if text, err := os.ReadFile(filepath.Join(node.StateDir(), "other@eth0.json")); err != nil || !strings.Contains(string(text), `"deleting"`) {
		t.Errorf("its checkpoint: %s, %v", text, err)
	}
	released()
	hanging.Wait()
	node.NothingLeft(t)
}
