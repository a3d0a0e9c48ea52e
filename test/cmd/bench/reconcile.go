package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/netmaster/api"
	"github.com/contiv/netplugin/netmaster/daemon"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/objdb/embedded"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	reconcileEvery = 3 * time.Second
	stallTime      = 15 * time.Second
	stallRounds    = 3 // of each, alternating; the median of the longest writes counts, as the machine may pause, too
	stallGoal      = 20 * time.Millisecond
)

// measureReconcile runs a netmaster with a store of its own in this process and writes continuously: alternately
// without reconciliation, which is the reference, and with reconciliation every few seconds. The longest write
// shows how long reconciliation blocks the store for others.
func measureReconcile(ctx context.Context, _ *site) (_ []figure, err error) {
	dir, err := os.MkdirTemp("", "bench-store-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	member, err := embedded.Start(ctx, embedded.Config{Dir: dir, Name: "bench", ClientURL: testkit.FreeURL(), PeerURL: testkit.FreeURL(), Log: testkit.Quiet()})
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopErr := member.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopErr
		}
	}()
	url := member.ClientURLs()[0]
	if err := withMaster(ctx, url, time.Hour, func(s *site) error { _, err := fillMemory(ctx, s); return err }); err != nil {
		return nil, err
	}
	var alone, stalled []time.Duration
	for range stallRounds {
		for _, side := range []struct {
			every time.Duration
			worst *[]time.Duration
		}{{time.Hour, &alone}, {reconcileEvery, &stalled}} {
			err := withMaster(ctx, url, side.every, func(s *site) error {
				took, err := s.writes(ctx)
				if err == nil {
					*side.worst = append(*side.worst, slices.Max(took))
				}
				return err
			})
			if err != nil {
				return nil, err
			}
		}
	}
	worst, usual := median(stalled), median(alone)
	return []figure{{
		Name: fmt.Sprintf("longest write while reconciling, %d endpoints", memoryEndpoints), Value: inMS(worst),
		Reference: "without " + inMS(usual), Ratio: fmt.Sprintf("%.1f", float64(worst)/float64(usual)),
		Goal: fmt.Sprintf("at most %s more", inMS(stallGoal)), Met: worst-usual <= stallGoal,
	}}, nil
}

// writes changes an object repeatedly and returns how long each change took.
func (s *site) writes(ctx context.Context) (took []time.Duration, err error) {
	if err := quiet(ctx); err != nil {
		return nil, err
	}
	for began, i := time.Now(), 0; time.Since(began) < stallTime; i++ {
		o := &contivmodel.Netprofile{TenantName: "default", ProfileName: "probe", Bandwidth: "10 mbps", Burst: 1500, DSCP: i % 64}
		t, err := timed(func() error { return client.Post(ctx, s.Client, o) })
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	return took, nil
}

// withMaster calls work with a netmaster in this process.
func withMaster(ctx context.Context, etcd string, every time.Duration, work func(*site) error) error {
	address := testkit.FreeAddress()
	d, err := daemon.New(daemon.Config{Listen: address, Control: address, LeaderTTL: 10 * time.Second, NodeGrace: time.Hour,
		ReconcileEvery: every, Log: testkit.Quiet(), Store: objdb.Config{Endpoints: []string{etcd}, Log: testkit.Quiet()},
		API: api.Config{ClusterMode: "cni", Log: testkit.Quiet(), Defaults: api.WithDefaults(contivmodel.Global{FwdMode: "routing"})}})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- d.Run(running) }()
	err = workOn(ctx, "http://"+address, etcd, work)
	stop()
	if ended := <-done; err == nil {
		err = ended
	}
	return err
}

// workOn waits until a netmaster is the leader and calls work with it.
func workOn(ctx context.Context, url, etcd string, work func(*site) error) error {
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := testkit.Poll(waiting, func() error { _, err := get(waiting, http.DefaultClient, url+"/readyz"); return err }); err != nil {
		return err
	}
	s, err := newSite(url, objdb.Config{Endpoints: []string{etcd}})
	if err != nil {
		return err
	}
	defer s.close()
	return work(s)
}
