package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	dnsAskers = 16 // pods, each below its limit
	dnsGroups = 4  // names that they query
	dnsRounds = 5  // of each server, alternating; the median counts
	dnsGoal   = 1.0
)

// dnsmasqScript runs the reference in a pod until it is killed: dnsmasq with the same names, in the format of
// /etc/hosts.
const dnsmasqScript = `
printf %s "$1" > /run/dnsmasq.hosts
exec dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts --addn-hosts=/run/dnsmasq.hosts \
  --listen-address="$2" --bind-interfaces --local-ttl=30 --user=root --pid-file= --dns-forward-max=1000`

// benchDNS counts how many queries of pods are answered, by their gateway and by dnsmasq in a pod of the same
// node.
func benchDNS(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	if _, err := exec.LookPath("dnsmasq"); err != nil {
		return nil, err
	}
	f := figure{Name: fmt.Sprintf("answers to %d pods that ask for names, on one node", dnsAskers), Goal: fmt.Sprintf("at least %.1f", dnsGoal)}
	err := netctlAll(ctx, bed,
		[]string{"tenant", "create", "dns"},
		[]string{"network", "create", "-t", "dns", "-s", "10.36.0.0/16", "-g", "10.36.255.254", "net"})
	if err != nil {
		return nil, err
	}
	node := bed.Nodes[1]
	var pods []*testbed.Pod
	var names []string
	var hosts strings.Builder
	for i := range dnsAskers {
		group := fmt.Sprint("name", i%dnsGroups)
		if i < dnsGroups {
			if err := netctlAll(ctx, bed, []string{"group", "create", "-t", "dns", "net", group}); err != nil {
				return nil, err
			}
			names = append(names, group)
		}
		pod, err := node.AddPod(ctx, fmt.Sprint("asker", i), "dns", "net", group)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(&hosts, pod.IP, group)
		pods = append(pods, pod)
	}
	ours := newAnswering(pods[0].Gateway.String(), "netplugin")
	if err := ours.round(ctx, pods, names); err != nil {
		return nil, err
	}
	reference, err := node.AddPod(ctx, "dnsmasq", "dns", "net", "")
	if err != nil {
		return nil, err
	}
	server, err := reference.Start("dnsmasq", "sh", "-ec", dnsmasqScript, "sh", hosts.String(), reference.IP.String())
	if err != nil {
		return nil, err
	}
	defer server.Kill()
	if err := awaitNameServer(ctx, pods[0], reference.IP.String(), names[0]); err != nil {
		return nil, err
	}
	theirs := newAnswering(reference.IP.String(), "dnsmasq")
	ours = newAnswering(ours.server, ours.process)
	for range dnsRounds {
		for _, side := range []*answering{ours, theirs} {
			if err := side.round(ctx, pods, names); err != nil {
				return nil, err
			}
		}
	}
	ratio := median(ours.rates) / median(theirs.rates)
	f.Value, f.Reference = fmt.Sprintf("%.0f/s", median(ours.rates)), fmt.Sprintf("dnsmasq %.0f/s", median(theirs.rates))
	f.Ratio, f.Met = fmt.Sprintf("%.2f", ratio), ratio >= dnsGoal
	return []figure{f, {Name: "processor time of an answer", Value: ours.each(), Reference: theirs.each(), Ratio: "-", Goal: "none", Met: true}}, nil
}

// asking is the probe's report about its queries.
type asking struct {
	Sent, Answered int
	Seconds        float64
}

func (a asking) rate() float64 { return float64(a.Answered) / a.Seconds }

// answering has the answers of a name server to all pods together, and their cost.
type answering struct {
	server, process string

	rates []float64 // per second, by round
	all   int
	took  *effort
}

func newAnswering(server, process string) *answering {
	return &answering{server: server, process: process, took: newEffort("ovs-vswitchd", process)}
}

// round makes all pods send queries at the same time.
func (a *answering) round(ctx context.Context, pods []*testbed.Pod, names []string) error {
	a.took.begin()
	reports := make([]asking, len(pods))
	group, ctx := errgroup.WithContext(ctx)
	for i, pod := range pods {
		group.Go(func() error {
			out, err := pod.Run(ctx, append([]string{pod.Probe(), "questions", "-server", a.server, "-workers", "2", "-for", "2s"}, names...)...)
			if err != nil {
				return err
			}
			if err := json.Unmarshal([]byte(out), &reports[i]); err != nil {
				return err
			}
			if r := reports[i]; r.Answered == 0 || r.Answered < r.Sent*9/10 {
				return fmt.Errorf("%s: %s answered %d of %d questions", pod.Name, a.server, r.Answered, r.Sent)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	a.took.end()
	var rate float64
	for _, r := range reports {
		rate += r.rate()
		a.all += r.Answered
	}
	a.rates = append(a.rates, rate)
	return nil
}

// each returns the processor time of the switch, and of the server, for an answer.
func (a *answering) each() string {
	micros := func(name string) float64 { return float64(a.took.each(name, a.all).Nanoseconds()) / 1e3 }
	return fmt.Sprintf("switch %.1f µs, %s %.1f µs", micros("ovs-vswitchd"), a.process, micros(a.process))
}

// awaitNameServer waits until a server answers.
func awaitNameServer(ctx context.Context, from *testbed.Pod, server, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return testkit.Poll(ctx, func() error {
		out, err := from.Run(ctx, from.Probe(), "resolve", "-server", server, "-wait", "200ms", name)
		if err == nil && !strings.Contains(out, "10.36.") {
			err = fmt.Errorf("name server %s: %s", server, out)
		}
		return err
	})
}
