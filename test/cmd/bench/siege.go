package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testbed"
	"github.com/contiv/netplugin/test/testkit"
)

const (
	siegeTime     = 30 * time.Second
	siegePods     = 15   // attached beside each flood
	masksRate     = 2000 // packets with diverse headers, few enough to leave the processors to the machine
	siegeAgent    = 0.3
	siegeADD      = 2.0
	answersPerSec = 100 // per port, with a burst of the same number; ofnet/pipeline/answer.go
	answersAtOnce = 1000
	ticksPerSec   = 100 // of /proc/PID/stat

	// podNice is the niceness of a pod relative to the daemons of its node: kubelet gives a pod without a processor
	// request the cgroup weight 1 of 100, and niceness 19 is 15 of 1,024.
	podNice = "19"
)

// sieges are the floods that the pod sends at its full rate.
var sieges = []kindOfFlood{
	{name: "ARP requests", kind: "arp"},
	{name: "neighbour solicitations", kind: "nd", to: gateway6},
	{name: "pings for the gateway", kind: "echo"},
	{name: "questions for names", kind: "dns"},
	{name: "new connections to a service", kind: "flows", to: servedVIP},
	{name: "connections to a service without providers", kind: "syn", to: refusedVIP},
	{name: "headers of all kinds", kind: "headers", to: taker},
}

// siegeFor returns the duration of each flood; CONTIV_BENCH_SIEGE changes it, at most to a minute.
func siegeFor() (time.Duration, error) {
	if text := os.Getenv("CONTIV_BENCH_SIEGE"); text != "" {
		return time.ParseDuration(text)
	}
	return siegeTime, nil
}

// siege is the state of a node during a flood.
type siege struct {
	rate     float64 // packets per second of the flood
	lost     float64 // of a neighbour's datagrams
	agent    float64 // processors used by netplugin
	answered float64 // packets that the switch answers in its slow path, per second
	seconds  float64
	add      time.Duration
}

// benchSiege measures the cost of one pod's flood for its node, compared with no flood and with the same rate of
// ordinary datagrams of the pod: the agent, the switch's slow path, pods that are attached, and a neighbour.
func benchSiege(ctx context.Context, bed *testbed.Bed) (figures []figure, err error) {
	pods, err := floodedPods(ctx, bed)
	if err != nil {
		return nil, err
	}
	quiet, err := adds(ctx, pods["neighbour"].Node, "quiet", nil)
	if err != nil {
		return nil, err
	}
	few, err := countMasks(ctx, pods["flooder"].Node)
	if err != nil {
		return nil, err
	}
	targets := map[string]string{"": pods["flooder"].Gateway.String(), taker: pods[taker].IP.String()}
	for _, k := range sieges {
		if known, found := targets[k.to]; found {
			k.to = known
		}
		if k.to == servedVIP {
			if err := awaitEcho(ctx, pods["flooder"], servedVIP); err != nil {
				return nil, err
			}
		}
		with, err := besiege(ctx, pods, k.kind, k.to, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.name, err)
		}
		as, err := besiege(ctx, pods, "udp", pods[taker].IP.String(), with.rate)
		if err != nil {
			return nil, fmt.Errorf("datagrams beside %s: %w", k.name, err)
		}
		figures = append(figures, with.figures(k.name, as, quiet)...)
	}
	explosion, err := benchMasks(ctx, pods, few)
	return append(figures, explosion...), err
}

// benchMasks measures how much the masks caused by a third pod reduce TCP between two pods of a node; the third
// pod sends so few packets that these cost nothing themselves.
func benchMasks(ctx context.Context, pods map[string]*testbed.Pod, few float64) ([]figure, error) {
	end := func(name string) netnsRunner {
		return netnsRunner{pods[name].Node, pods[name].Name, pods[name].IP.String()}
	}
	rates, masks, flooder := map[string][]float64{}, map[string][]float64{}, pods["flooder"]
	for _, kind := range []string{"udp", "headers"} {
		err := testkit.Poll(ctx, func() error { // the masks of the earlier floods expire
			masks, err := countMasks(ctx, flooder.Node)
			if err == nil && kind == "udp" && masks > 2*few {
				err = fmt.Errorf("%s has %.0f masks, and had %.0f", flooder.Node.Name, masks, few)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		for range floodRounds {
			storm, err := flooder.Start("storm", flooder.Probe(), "storm", "-kind", kind, "-to", pods[taker].IP.String(), "-rate", fmt.Sprint(masksRate), "-for", "1m")
			if err != nil {
				return nil, err
			}
			rate, err := iperf(ctx, end("neighbour"), end(taker))
			if err != nil {
				return nil, errors.Join(err, storm.Kill())
			}
			many, err := countMasks(ctx, flooder.Node)
			if err = errors.Join(err, storm.Kill()); err != nil {
				return nil, err
			}
			rates[kind], masks[kind] = append(rates[kind], rate), append(masks[kind], many)
		}
	}
	with, without := median(rates["headers"]), median(rates["udp"])
	return []figure{{Name: fmt.Sprintf("TCP of two pods beside %d headers of all kinds per second of a third one, %.0f masks", masksRate, median(masks["headers"])),
		Value: gbit(with), Reference: fmt.Sprintf("beside as many datagrams %s, %.0f masks", gbit(without), median(masks["udp"])),
		Ratio: fmt.Sprintf("%.2f", with/without), Goal: "none", Met: true}}, nil
}

var maskCount = regexp.MustCompile(`Use count: (\d+)`)

// countMasks returns the number of masks with which a node's switch looks packets up.
func countMasks(ctx context.Context, n *testbed.Node) (all float64, err error) {
	out, err := n.Run(ctx, "ovs-appctl", "dpif-netdev/subtable-lookup-info-get")
	if err != nil {
		return 0, err
	}
	for _, found := range maskCount.FindAllStringSubmatch(out, -1) {
		count, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			return 0, err
		}
		all += count
	}
	return all, nil
}

func (s siege) figures(name string, udp siege, quiet time.Duration) []figure {
	beside := fmt.Sprintf(" beside %s (%.0f/s)", name, s.rate)
	most := answersPerSec + answersAtOnce/s.seconds
	ratio := float64(s.add) / float64(quiet)
	return []figure{
		{Name: "answered in the slow path" + beside, Value: fmt.Sprintf("%.0f/s", s.answered), Reference: "-", Ratio: "-", Goal: fmt.Sprintf("at most %.0f/s", most), Met: s.answered <= 1.05*most},
		{Name: "netplugin" + beside, Value: fmt.Sprintf("%.3f cores", s.agent), Reference: fmt.Sprintf("beside datagrams %.3f", udp.agent), Ratio: "-", Goal: fmt.Sprintf("below %.1f", siegeAgent), Met: s.agent < siegeAgent},
		{Name: "pod ADD p50" + beside, Value: inMS(s.add), Reference: fmt.Sprintf("alone %s, beside datagrams %s", inMS(quiet), inMS(udp.add)), Ratio: fmt.Sprintf("%.2f", ratio),
			Goal: fmt.Sprintf("at most %.1f", siegeADD), Met: ratio <= siegeADD},
		{Name: fmt.Sprintf("of %d datagrams, lost", floodSteps) + beside, Value: fmt.Sprintf("%.0f", s.lost), Reference: fmt.Sprintf("beside datagrams %.0f (%.0f/s)", udp.lost, udp.rate), Ratio: "-", Goal: "not more", Met: s.lost <= udp.lost},
	}
}

// besiege floods, and measures the node meanwhile. Rate 0 means as much as the pod can send.
func besiege(ctx context.Context, pods map[string]*testbed.Pod, kind, to string, rate float64) (s siege, err error) {
	flooder := pods["flooder"]
	n := flooder.Node
	used, answered, began := 0.0, 0.0, time.Now()
	for sign := -1.0; sign <= 1; sign += 2 { // before and after
		if sign > 0 {
			if err := s.endure(ctx, pods, kind, to, rate); err != nil {
				return s, err
			}
		}
		cpu, err := processorOf(n.Netplugin().PID)
		if err != nil {
			return s, err
		}
		packets, err := slowAnswers(ctx, n)
		if err != nil {
			return s, err
		}
		used, answered = used+sign*cpu, answered+sign*packets
	}
	took := time.Since(began).Seconds()
	s.agent, s.answered, s.seconds = used/took, answered/took, took
	return s, nil
}

// endure returns when the flood has ended.
func (s *siege) endure(ctx context.Context, pods map[string]*testbed.Pod, kind, to string, rate float64) error {
	flooder := pods["flooder"]
	var report struct {
		Sent    int
		Seconds float64
	}
	length, err := siegeFor()
	if err != nil {
		return err
	}
	over := make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(over)
		out, err := flooder.Run(ctx, "nice", "-n", podNice, flooder.Probe(), "storm", "-kind", kind, "-to", to, "-rate", fmt.Sprint(rate), "-for", length.String())
		if err = errors.Join(err, json.Unmarshal([]byte(out), &report)); err == nil {
			s.rate = float64(report.Sent) / report.Seconds
		}
		return err
	})
	group.Go(func() (err error) {
		if s.lost, err = lostBy(ctx, pods["neighbour"], pods["far"]); err != nil {
			return err
		}
		s.add, err = adds(ctx, flooder.Node, kind, over)
		return err
	})
	return group.Wait()
}

// adds returns the median time to attach a pod, until the flood has ended.
func adds(ctx context.Context, n *testbed.Node, name string, over <-chan struct{}) (time.Duration, error) {
	var took []time.Duration
	for i := range siegePods {
		select {
		case <-over:
			if i > 0 {
				return median(took), nil
			}
		default:
		}
		pod, err := n.AddPod(ctx, fmt.Sprintf("siege-%s%d", name, i), "floods", "net", "")
		if err != nil {
			return 0, err
		}
		took = append(took, pod.Took)
		if err := pod.Delete(ctx); err != nil {
			return 0, err
		}
	}
	return median(took), nil
}

// processorOf returns the processor time of a process, in seconds.
func processorOf(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields, sum := strings.Fields(rest), 0.0
	for _, field := range fields[11:13] { // utime, stime
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
		sum += ticks
	}
	return sum / ticksPerSec, nil
}

var packetCount = regexp.MustCompile(`n_packets=(\d+)`)

// slowAnswers returns the number of packets in table REPLY of a node's switch, which ovs-vswitchd answers.
func slowAnswers(ctx context.Context, n *testbed.Node) (all float64, err error) {
	table := slices.IndexFunc(pipeline.Tables(), func(t pipeline.Table) bool { return t.Name == "REPLY" })
	register := slices.IndexFunc(pipeline.Registers(), func(r pipeline.Register) bool { return r.Name == "TOO_BIG" })
	if table < 0 || register < 0 {
		return 0, errors.New("the pipeline has no table REPLY, or no register TOO_BIG")
	}
	r := pipeline.Registers()[register]
	tooBig := fmt.Sprintf("reg%d=%#x/%#[2]x", r.Index, 1<<r.Ofs) // in flows that count all packets whose size was compared; see docs/pipeline.md
	out, err := n.Run(ctx, "ovs-ofctl", "-O", "OpenFlow13", "dump-flows", ovsd.DefaultBridge, fmt.Sprintf("table=%d", pipeline.Tables()[table].ID))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(out) {
		found := packetCount.FindStringSubmatch(line)
		if found == nil || strings.Contains(line, tooBig) {
			continue
		}
		packets, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			return 0, err
		}
		all += packets
	}
	return all, nil
}
