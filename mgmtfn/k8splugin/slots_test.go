package k8splugin_test

import (
	"context"
	"fmt"
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
	for range refusedAtOnce { // 64 run, 64 wait, the rest is told at once
		<-refusals
	}

	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second) // those that wait are given up after a minute
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
