package main

import (
	"context"
	"fmt"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/test/testbed"
)

const (
	wideCount      = 64 // networks, each a /16
	wideEndpoints  = 120000
	wideMemoryGoal = 600 // MiB
	wideFileGoal   = 200 // MB
)

// wideNetworks returns a tenant and its networks of /16.
func wideNetworks(tenant string) []contivmodel.Object {
	objects := []contivmodel.Object{&contivmodel.Tenant{TenantName: tenant, MaxEndpoints: 1_000_000}}
	for i := range wideCount {
		objects = append(objects, &contivmodel.Network{TenantName: tenant, NetworkName: wideName(i), Encap: "vxlan",
			Subnet: fmt.Sprintf("10.%d.0.0/16", i), Gateway: fmt.Sprintf("10.%d.255.254", i)})
	}
	return objects
}

func wideName(i int) string { return fmt.Sprintf("wide%d", i) }

// benchWide creates endpoints in large networks, whose records must not grow with them. It reads the leader's
// anonymous memory (its etcd member included; pages of files can be reclaimed by the kernel) and the size of
// etcd's file.
func benchWide(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	leader, err := bed.Leader(ctx)
	if err != nil {
		return nil, err
	}
	fileBefore, err := storeFile(ctx, leader)
	if err != nil {
		return nil, err
	}
	m := memoryOf(ctx, leader.Netmaster().PID)
	_, err = insideLeader("wide")(ctx, bed)
	before, after, most, memErr := m.finish()
	if err != nil {
		return nil, err
	}
	if memErr != nil {
		return nil, memErr
	}
	fileAfter, err := storeFile(ctx, leader)
	if err != nil {
		return nil, err
	}
	grown := fileAfter - fileBefore
	what := fmt.Sprintf("%d endpoints in %d networks /16", wideEndpoints, wideCount)
	return []figure{{
		Name: "netmaster, " + what, Value: fmt.Sprintf("%.0f MiB (at most %.0f)", after, most), Reference: fmt.Sprintf("before %.0f MiB", before),
		Ratio: "-", Goal: fmt.Sprintf("at most %d MiB", wideMemoryGoal), Met: most <= wideMemoryGoal,
	}, {
		Name: "etcd's file, " + what, Value: fmt.Sprintf("+%.0f MB", grown), Reference: fmt.Sprintf("before %.0f MB", fileBefore),
		Ratio: "-", Goal: fmt.Sprintf("at most %d MB", wideFileGoal), Met: grown <= wideFileGoal,
	}}, nil
}

// fillWide does not remove the endpoints.
func fillWide(ctx context.Context, s *site) ([]figure, error) {
	if _, err := s.prepare(ctx, wideNetworks("wide")...); err != nil {
		return nil, err
	}
	_, err := spread(ctx, memoryClients, wideEndpoints, func(ctx context.Context, i int) error {
		return s.createEndpoint(ctx, "wide", wideName(i%wideCount), "", fmt.Sprintf("%064x", i))
	})
	return []figure{}, err
}

// storeFile returns the size of the database of a node's etcd member, in MB.
func storeFile(ctx context.Context, n *testbed.Node) (float64, error) {
	out, err := n.Run(ctx, "stat", "-c", "%s", "/var/lib/contiv/etcd/member/snap/db")
	if err != nil {
		return 0, err
	}
	var size float64
	_, err = fmt.Sscan(out, &size)
	return size / 1e6, err
}

// memory samples the anonymous memory of a process, in MiB.
type memory struct {
	stop                context.CancelFunc
	done                chan struct{}
	before, after, most float64
	err                 error
}

// memoryOf starts sampling.
func memoryOf(ctx context.Context, pid int) *memory {
	ctx, stop := context.WithCancel(ctx)
	m := &memory{stop: stop, done: make(chan struct{})}
	m.before, m.err = resident(pid, "RssAnon")
	go func() {
		defer close(m.done)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for last := false; m.err == nil; {
			if m.after, m.err = resident(pid, "RssAnon"); m.after > m.most {
				m.most = m.after
			}
			if last {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				last = true
			}
		}
	}()
	return m
}

// finish stops sampling and returns the first, the last and the highest value.
func (m *memory) finish() (before, after, most float64, err error) {
	m.stop()
	<-m.done
	return m.before, m.after, m.most, m.err
}
