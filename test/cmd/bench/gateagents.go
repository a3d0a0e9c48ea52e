package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/scenario"
	"github.com/contiv/netplugin/test/testbed"
)

const (
	gateTenants    = 50
	gatePerTenant  = 200 // endpoints, each on another node
	gateWatchGoal  = 40  // in all members of etcd
	gateMemoryGoal = 1.2

	givenBack      = 150 * time.Second
	memoryReadings = 21

	thiefRounds   = 5
	thiefRequests = 400 // of another node, in each round with the thief and in each without
	thiefGoal     = 1.2
)

// gateAgents returns the number of simulated agents; CONTIV_BENCH_AGENTS changes it, for slower machines.
func gateAgents() int {
	if n, err := strconv.Atoi(os.Getenv("CONTIV_BENCH_AGENTS")); err == nil && n > 0 {
		return n
	}
	return 1000
}

// benchGateAgents makes many agents, simulated by one process on the leader's node, watch the state through three
// netmasters. It counts the watches of etcd and compares the anonymous memory of netmasters with that before. Then
// a client with a node's stolen key sends forbidden requests as fast as it can, and the requests of another node
// are timed, with and without it, alternating.
func benchGateAgents(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	leader, err := bed.Leader(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := insideLeader("gatefill")(ctx, bed); err != nil {
		return nil, err
	}
	token, err := nodeToken(ctx, bed)
	if err != nil {
		return nil, err
	}
	crowd := func(ctx context.Context, what string) *exec.Cmd {
		return crowdOn(ctx, leader, bed.MasterURLs(), token, what)
	}
	before, err := masterMemory(ctx, bed)
	if err != nil {
		return nil, err
	}
	watchesBefore, err := etcdWatches(ctx, bed)
	if err != nil {
		return nil, err
	}
	fmt.Printf("netmasters before the agents: %.0f MiB, %.0f watches in etcd\n", before, watchesBefore)
	agents, err := begin(crowd(ctx, "agents"))
	if err != nil {
		return nil, err
	}
	defer agents.end()
	said, err := agents.line()
	if err != nil {
		return nil, err
	}
	fmt.Println("agents:", said)
	watches, err := etcdWatches(ctx, bed)
	if err != nil {
		return nil, err
	}
	after, err := masterMemory(ctx, bed)
	if err != nil {
		return nil, err
	}
	most := 0.0
	for i := range after {
		most = max(most, after[i]/before[i])
	}
	figures := []figure{{
		Name:  fmt.Sprintf("watches in etcd, %d agents on %d netmasters", gateAgents(), len(bed.Nodes)),
		Value: fmt.Sprintf("%.0f", watches), Reference: fmt.Sprintf("before %.0f", watchesBefore), Ratio: "-",
		Goal: fmt.Sprintf("at most %d", gateWatchGoal), Met: watches <= gateWatchGoal,
	}, {
		Name:  fmt.Sprintf("netmasters, %d agents, %d endpoints", gateAgents(), gateTenants*gatePerTenant),
		Value: inMiB(after), Reference: "before " + inMiB(before), Ratio: fmt.Sprintf("at most %.2f", most),
		Goal: fmt.Sprintf("at most %.1f", gateMemoryGoal), Met: most <= gateMemoryGoal,
	}}
	fmt.Printf("netmasters with the agents: %s, %.0f watches in etcd\n", inMiB(after), watches)
	f, err := besideThief(ctx, crowd)
	return append(figures, f...), err
}

// besideThief times the requests of a node, with and without a client that uses another node's stolen key.
func besideThief(ctx context.Context, crowd func(ctx context.Context, what string) *exec.Cmd) (_ []figure, err error) {
	victim, err := begin(crowd(ctx, "victim"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, victim.end()) }()
	thief, err := begin(crowd(ctx, "thief"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, thief.end()) }()
	for name, h := range map[string]*helper{"victim": victim, "thief": thief} {
		if said, err := h.line(); err != nil || said != "ready" {
			return nil, fmt.Errorf("%s: %q, %w", name, said, err)
		}
	}
	var with, without []time.Duration
	ask := func(to *[]time.Duration) error {
		said, err := victim.answer("go")
		if err != nil {
			return err
		}
		for text := range strings.FieldsSeq(said) {
			took, err := time.ParseDuration(text)
			if err != nil {
				return err
			}
			*to = append(*to, took)
		}
		return nil
	}
	for range thiefRounds {
		if err := ask(&without); err != nil {
			return nil, err
		}
		if err := thief.tell("go"); err != nil {
			return nil, err
		}
		if err := ask(&with); err != nil {
			return nil, err
		}
		if _, err := thief.answer("stop"); err != nil {
			return nil, err
		}
	}
	var figures []figure
	for _, p := range []int{50, 99} {
		beside, alone := scenario.Percentile(with, p), scenario.Percentile(without, p)
		ratio := float64(beside) / float64(alone)
		figures = append(figures, figure{
			Name:  fmt.Sprintf("a node's requests p%d beside a thief of another's key", p),
			Value: inMS(beside), Reference: "without him " + inMS(alone), Ratio: fmt.Sprintf("%.2f", ratio),
			Goal: fmt.Sprintf("at most %.1f", thiefGoal), Met: ratio <= thiefGoal,
		})
	}
	return figures, nil
}

// helper is a process that reports its progress, a line at a time, and ends with its input.
type helper struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func begin(cmd *exec.Cmd) (*helper, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	h := &helper{cmd, in, bufio.NewScanner(out)}
	h.out.Buffer(nil, 1<<20)
	return h, cmd.Start()
}

func (h *helper) tell(what string) error {
	_, err := io.WriteString(h.in, what+"\n")
	return err
}

// answer sends a line to the helper and returns its reply.
func (h *helper) answer(to string) (string, error) {
	if err := h.tell(to); err != nil {
		return "", err
	}
	return h.line()
}

func (h *helper) line() (string, error) {
	if h.out.Scan() {
		return h.out.Text(), nil
	}
	return "", errors.Join(fmt.Errorf("%s has ended", h.cmd), h.out.Err())
}

func (h *helper) end() error {
	_ = h.in.Close() // it may have ended
	return h.cmd.Wait()
}

// masterMemory returns the anonymous memory of each netmaster, its etcd member included, after temporary memory
// was returned: Go collects garbage at least every two minutes. It is the median over a few seconds.
func masterMemory(ctx context.Context, bed *testbed.Bed) (sizes []float64, err error) {
	read := make([][]float64, len(bed.Nodes))
	wait := time.NewTimer(givenBack)
	defer wait.Stop()
	for range memoryReadings {
		select {
		case <-wait.C:
			wait.Reset(time.Second)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		for i, n := range bed.Nodes {
			size, err := resident(n.Netmaster().PID, "RssAnon")
			if err != nil {
				return nil, err
			}
			read[i] = append(read[i], size)
		}
	}
	for _, of := range read {
		sizes = append(sizes, median(of))
	}
	return sizes, nil
}

// etcdWatches returns the number of watches of the members of etcd.
func etcdWatches(ctx context.Context, bed *testbed.Bed) (float64, error) {
	return sumOfMembers(ctx, bed, "etcd_debugging_mvcc_watcher_total")
}
