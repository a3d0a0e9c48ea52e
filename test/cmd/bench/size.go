package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

// Numbers of objects of one node.
const (
	sizeEndpoints = 1000
	sizeLocal     = 100 // those with ports
	sizeGroups    = 50
	sizeRules     = 15_000
	sizeServices  = 1000
	sizeProviders = 5 // per service

	sizeChanges    = 50
	sizeGoal       = 3 * time.Second
	sizeChangeGoal = 20 * time.Millisecond
	sizeBundleGoal = 50 // flows and buckets per change; a bundle has a few
)

// benchSize is benchSwitch for a node with many rules and services instead of many endpoints.
func benchSize(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	return besideNothing(ctx, bed, "size-inside")
}

// runSize measures inside the node: the restoration of an empty switch, and changes in a full one.
func runSize(ctx context.Context, out io.Writer) (err error) {
	objects := objectsOfSize()
	d, err := startDriver(ctx, objects[:1], time.Hour)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.addPorts(ctx, objects); err != nil {
		return err
	}
	if err := atRest(ctx); err != nil {
		return err
	}
	cold, err := timed(func() error { return d.replace(ctx, drivers.Change{Replace: true, Set: objects}) })
	if err != nil {
		return err
	}
	flows := d.Status().Flows
	figures := []figure{{
		Name:  fmt.Sprintf("cold programming of %d endpoints, %d rules, %d services with %d providers: %d flows", sizeEndpoints, sizeRules, sizeServices, sizeServices*sizeProviders, flows),
		Value: inMS(cold), Reference: "none", Ratio: "-", Goal: "at most " + inMS(sizeGoal), Met: cold <= sizeGoal,
	}}
	rule := func(i int) pipeline.Object {
		return pipeline.Rule{ID: "one-more", Priority: 60, SrcGroup: 3, DstGroup: 4, Protocol: openflow.ProtoTCP, DstPort: 99, Allow: i%2 == 1}
	}
	provider := func(i int) pipeline.Object { return serviceOfSize(7, sizeProviders-1+i%2) }
	for _, c := range []struct {
		what   string
		object func(i int) pipeline.Object
	}{{"a rule changed beside these", rule}, {"a provider come or gone beside these", provider}} {
		f, err := d.changes(ctx, c.what, c.object)
		if err != nil {
			return err
		}
		figures = append(figures, f)
	}
	return json.NewEncoder(out).Encode(figures)
}

// changes times repeated changes of an object, and counts the resulting changes of the switch.
func (d *driver) changes(ctx context.Context, what string, object func(i int) pipeline.Object) (figure, error) {
	counted, err := countChanges(ctx)
	if err != nil {
		return figure{}, err
	}
	var took []time.Duration
	for i := range sizeChanges {
		o := object(i)
		t, err := timed(func() error {
			d.Update(drivers.Change{Set: []pipeline.Object{o}})
			return d.Sync(ctx, o.Key())
		})
		if err != nil {
			return figure{}, err
		}
		took = append(took, t)
	}
	flows, err := counted()
	if err != nil {
		return figure{}, err
	}
	worst, each := slices.Max(took), float64(flows)/sizeChanges
	return figure{
		Name: what + ", worst of " + fmt.Sprint(sizeChanges), Value: fmt.Sprintf("%s (p50 %s), %.1f flows", inMS(worst), inMS(median(took)), each), Reference: "none", Ratio: "-",
		Goal: fmt.Sprintf("at most %s, %d flows", inMS(sizeChangeGoal), sizeBundleGoal), Met: worst <= sizeChangeGoal && each <= sizeBundleGoal,
	}, nil
}

// restTime is how long ovs-vswitchd does not check its configuration once it has finished with new ports, each of
// which makes it check all of them several times.
const restTime = time.Second

// atRest waits until ovs-vswitchd has finished with new ports.
func atRest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	before, since := "", time.Now()
	return testkit.Poll(ctx, func() error {
		out, err := exec.CommandContext(ctx, "ovs-appctl", "coverage/read-counter", "bridge_reconfigure").Output()
		if now := string(out); now != before {
			before, since = now, time.Now()
		}
		if err == nil && time.Since(since) < restTime {
			err = errors.New("ovs-vswitchd is busy with ports")
		}
		return err
	})
}

// addPorts creates the ports of local endpoints; the pods' ends are all in one namespace.
func (d *driver) addPorts(ctx context.Context, objects []pipeline.Object) (err error) {
	const pods = "bench-pods"
	if out, err := exec.CommandContext(ctx, "ip", "netns", "add", pods).CombinedOutput(); err != nil {
		return fmt.Errorf("namespace %s: %w: %s", pods, err, out)
	}
	ns, err := os.Open("/run/netns/" + pods)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ns.Close()) }()
	for _, o := range objects {
		if e, is := o.(pipeline.Endpoint); is && e.Local {
			if _, err := d.AddPort(ctx, e.Encap, e.ID, int(ns.Fd())); err != nil {
				return err
			}
		}
	}
	return nil
}

// objectsOfSize returns a network and its objects. Each pair of groups has rules for several ports, some by
// address, and a rule that denies the rest.
func objectsOfSize() []pipeline.Object {
	objects := remotes(sizeEndpoints)
	for i, o := range objects[1:] {
		e := o.(pipeline.Endpoint)
		e.Group = uint16(1 + i%sizeGroups)
		if i < sizeLocal {
			e.Local, e.VTEP = true, netip.Addr{}
		}
		objects[1+i] = e
	}
	for i := range sizeRules {
		pair := i % (sizeGroups * sizeGroups)
		r := pipeline.Rule{
			ID: fmt.Sprint("rule-", i), Priority: 2 + i%50, Allow: true, Protocol: openflow.ProtoTCP, DstPort: uint16(1000 + i/(sizeGroups*sizeGroups)),
			SrcGroup: uint16(1 + pair/sizeGroups), DstGroup: uint16(1 + pair%sizeGroups),
		}
		switch i % 10 {
		case 0:
			r.Priority, r.Allow, r.Protocol, r.DstPort = 1, false, 0, 0
		case 1:
			r.Src = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 8), 0}), 24)
		case 2:
			r.Protocol = openflow.ProtoUDP
		}
		objects = append(objects, r)
	}
	for i := range sizeServices {
		objects = append(objects, serviceOfSize(i, sizeProviders))
	}
	return objects
}

// serviceOfSize returns the service with a number.
func serviceOfSize(number, providers int) pipeline.Object {
	s := pipeline.Service{ID: fmt.Sprintf("s%d:bench", number), VRF: 1, Tag: 7, Ports: []pipeline.ServicePort{{
		Address: netip.AddrFrom4([4]byte{10, 200, byte(number >> 8), byte(number)}), From: pipeline.FromPods, Protocol: openflow.ProtoTCP, Port: 80, Target: 8080}}}
	for p := range providers {
		s.Providers = append(s.Providers, netip.AddrFrom4([4]byte{10, byte(100 + p), byte(number >> 8), byte(number)}))
	}
	return s.Numbered(func(uint32) bool { return false })
}
