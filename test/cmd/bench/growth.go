package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
)

const (
	growthPresent = 10000
	growthRounds  = 300
	growthGoal    = 1.2
	growthClients = 16 // that create endpoints
)

// growing is a kind of object whose cost must not grow with the number of objects.
type growing struct {
	kind   string
	fill   func(ctx context.Context, s *site, tenant string) (undo func(context.Context) error, err error)
	add    func(ctx context.Context, s *site, tenant string, i int) error
	remove func(ctx context.Context, s *site, tenant string, i int) error
}

var growth = []growing{
	{"rule", filled(rules), added(extraRule), removed(extraRule)},
	{"network", filled(networks), added(extraNetwork), removed(extraNetwork)},
	{"endpoint", fillEndpoints, func(ctx context.Context, s *site, tenant string, i int) error {
		return s.createEndpoint(ctx, tenant, "net", "front", fmt.Sprintf("x%d", i))
	}, func(ctx context.Context, s *site, tenant string, i int) error {
		return s.deleteEndpoint(ctx, tenant, "net", fmt.Sprintf("x%d", i))
	}},
}

// measureGrowth compares adding one object, through REST, to ten thousand of its kind with adding it to none,
// before they exist and after.
func measureGrowth(ctx context.Context, s *site) ([]figure, error) {
	var figures []figure
	for _, g := range growth {
		undo, err := s.stage(ctx, "grow")
		if err != nil {
			return nil, err
		}
		without, err := s.oneMore(ctx, g)
		if err != nil {
			return nil, err
		}
		empty, err := g.fill(ctx, s, "grow")
		if err != nil {
			return nil, err
		}
		with, err := s.oneMore(ctx, g)
		if err != nil {
			return nil, err
		}
		if err := empty(ctx); err != nil {
			return nil, err
		}
		again, err := s.oneMore(ctx, g)
		if err != nil {
			return nil, err
		}
		if err := undo(ctx); err != nil {
			return nil, err
		}
		one, none := median(with), median(append(without, again...))
		ratio := float64(one) / float64(none)
		figures = append(figures, figure{
			Name: fmt.Sprintf("one more %s with %d present", g.kind, growthPresent), Value: inMS(one), Reference: "with none " + inMS(none),
			Ratio: fmt.Sprintf("%.2f", ratio), Goal: fmt.Sprintf("at most %.1f", growthGoal), Met: ratio <= growthGoal,
		})
	}
	return figures, nil
}

// oneMore adds objects one after the other and returns how long each took.
func (s *site) oneMore(ctx context.Context, g growing) ([]time.Duration, error) {
	if err := quiet(ctx); err != nil {
		return nil, err
	}
	var took []time.Duration
	for i := range growthRounds {
		t, err := timed(func() error { return g.add(ctx, s, "grow", i) })
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	for i := range growthRounds {
		if err := g.remove(ctx, s, "grow", i); err != nil {
			return nil, err
		}
	}
	return took, nil
}

func extraRule(tenant string, i int) contivmodel.Object {
	return rule(tenant, fmt.Sprintf("x%d", i), 20000+i)
}

func extraNetwork(tenant string, i int) contivmodel.Object {
	return &contivmodel.Network{TenantName: tenant, NetworkName: fmt.Sprintf("x%d", i), Encap: "vxlan", Subnet: fmt.Sprintf("11.%d.%d.0/24", i>>8, i&255)}
}

func added(object func(string, int) contivmodel.Object) func(context.Context, *site, string, int) error {
	return func(ctx context.Context, s *site, tenant string, i int) error {
		return client.Post(ctx, s.Client, object(tenant, i))
	}
}

func removed(object func(string, int) contivmodel.Object) func(context.Context, *site, string, int) error {
	return func(ctx context.Context, s *site, tenant string, i int) error {
		o := object(tenant, i)
		return s.Delete(ctx, contivmodel.KindOf(o), o.ModelKey())
	}
}

// filled creates objects by one apply.
func filled(objects func(string, int) []client.Operation) func(context.Context, *site, string) (func(context.Context) error, error) {
	return func(ctx context.Context, s *site, tenant string) (func(context.Context) error, error) {
		operations := objects(tenant, growthPresent)
		_, err := s.Apply(ctx, operations, false)
		return func(ctx context.Context) error { return s.remove(ctx, operations) }, err
	}
}

func fillEndpoints(ctx context.Context, s *site, tenant string) (func(context.Context) error, error) {
	each := func(ctx context.Context, do func(ctx context.Context, container string) error) error {
		_, err := spread(ctx, growthClients, growthPresent, func(ctx context.Context, i int) error { return do(ctx, fmt.Sprintf("f%d", i)) })
		return err
	}
	err := each(ctx, func(ctx context.Context, container string) error {
		return s.createEndpoint(ctx, tenant, "net", "front", container)
	})
	return func(ctx context.Context) error {
		return each(ctx, func(ctx context.Context, container string) error {
			return s.deleteEndpoint(ctx, tenant, "net", container)
		})
	}, err
}

// quiet waits, for a limited time, until the machine is nearly idle, so that the agents' work for the objects
// before is not measured.
func quiet(ctx context.Context) error {
	const interval, tries, idleShare = time.Second, 30, 0.7
	for range tries {
		idleBefore, allBefore, err := processorTime()
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(interval):
		}
		idle, all, err := processorTime()
		if err != nil {
			return err
		}
		if (idle-idleBefore)/(all-allBefore) > idleShare {
			return nil
		}
	}
	return nil
}

// processorTime returns the times in the first line of /proc/stat, in ticks.
func processorTime() (idle, all float64, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("/proc/stat: %w", err)
		}
		all += ticks
		if i == 3 {
			idle = ticks
		}
	}
	return idle, all, nil
}
