package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/testbed"
)

// streamTime is the duration of the traffic during which an agent is restarted.
const streamTime = 6 * time.Second

// restartAgent restarts the agents of both ends of a stream, one with SIGTERM and one with SIGKILL, while it sends
// one datagram per millisecond.
func (s *Scenario) restartAgent(ctx context.Context) error {
	from, to := s.pods["web1"], s.pods["db1"] // another node, another network
	before, err := s.bed.Drops(ctx, from, to)
	if err != nil {
		return err
	}
	g, streaming := errgroup.WithContext(ctx)
	var report struct {
		Sent, Lost, Late int
		MaxGapMS         float64
		Losses           []struct {
			At    time.Time
			Count int
		}
	}
	g.Go(func() error {
		// An exit status of 1 means losses, which the report counts.
		out, err := from.Run(streaming, from.Node.Prompt(from.Probe(), "stream", "-to", to.IP.String()+":"+echoPort,
			"-count", strconv.Itoa(int(streamTime.Milliseconds())))...)
		if jsonErr := json.Unmarshal([]byte(out), &report); jsonErr != nil {
			return fmt.Errorf("stream: %w, %w", jsonErr, err)
		}
		return nil
	})
	g.Go(func() error {
		for _, restart := range []struct {
			node *testbed.Node
			end  func(*testbed.Process) error
		}{{from.Node, (*testbed.Process).Terminate}, {to.Node, (*testbed.Process).Kill}} {
			if err := restart.end(restart.node.Netplugin()); err != nil {
				return err
			}
			started := time.Now()
			if err := restart.node.StartNetplugin(); err != nil {
				return err
			}
			if err := restart.node.WaitReady(streaming); err != nil {
				return err
			}
			s.timing("agent restart to ready", time.Since(started))
			fmt.Fprintf(s.out, "   the agent of %s was started at %s and ready at %s\n", restart.node.Name, clock(started), clock(time.Now()))
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		return err
	}
	s.check(report.Sent > 0 && report.Lost == 0, "netplugin of %s stopped and that of %s killed under a stream: %d datagrams sent, %d lost",
		from.Node.Name, to.Node.Name, report.Sent, report.Lost)
	for _, loss := range report.Losses {
		fmt.Fprintf(s.out, "        %d lost from %s on\n", loss.Count, clock(loss.At))
	}
	if report.Lost > 0 {
		fmt.Fprintf(s.out, "        longest gap %.0f ms, %d could not be sent in time\n", report.MaxGapMS, report.Late)
		after, err := s.bed.Drops(ctx, from, to)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "        %s\n", after.Since(before))
	}
	return nil
}

// clock returns the time of day, to compare with the logs of nodes.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// morePods is the number of pods created around the leader's death.
const morePods = 24

// killLeader kills the leading netmaster, and with it its etcd member, while pods are created. Every ADD must
// succeed nevertheless.
func (s *Scenario) killLeader(ctx context.Context) error {
	leader, err := s.bed.Leader(ctx)
	if err != nil {
		return err
	}
	var pods []*testbed.Pod
	create := func(first, last int) error {
		for i := first; i < last; i++ {
			node := s.bed.Nodes[i%len(s.bed.Nodes)]
			pod, err := node.AddPod(ctx, fmt.Sprintf("more%d", i), "blue", "front", "web")
			if err != nil {
				return err
			}
			pods = append(pods, pod)
		}
		return nil
	}
	if err := create(0, morePods/2); err != nil {
		return err
	}
	for _, pod := range pods {
		s.timing("pod ADD", pod.Took)
	}
	var killed time.Time
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return create(morePods/2, morePods) })
	g.Go(func() error {
		killed = time.Now()
		if err := syscall.Kill(leader.Netmaster().PID, syscall.SIGKILL); err != nil {
			return err
		}
		took, err := s.awaitNewLeader(gctx, leader, killed)
		s.timing("failover after kill -9", took)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	seen := map[string]string{}
	for _, pod := range pods {
		if other := seen[pod.IP.String()]; other != "" {
			s.check(false, "%s and %s were both given %s", other, pod.Name, pod.IP)
		}
		seen[pod.IP.String()] = pod.Name
	}
	s.check(len(pods) == morePods, "the leader on %s was killed; all %d pods were made, no address twice", leader.Name, len(pods))
	if _, err := pods[0].Run(ctx, "ping", "-c1", "-W10", "-n", "-q", pods[len(pods)-1].IP.String()); err != nil {
		s.check(false, "the first and the last of them do not reach each other: %v", err)
	}
	if err := leader.StartNetmaster(); err != nil {
		return err
	}
	for _, pod := range pods {
		if err := pod.Delete(ctx); err != nil {
			return err
		}
	}
	return nil
}

// awaitNewLeader waits until another netmaster carries out a request.
func (s *Scenario) awaitNewLeader(ctx context.Context, old *testbed.Node, since time.Time) (time.Duration, error) {
	var survivor *testbed.Node
	for _, n := range s.bed.Nodes {
		if n != old {
			survivor = n
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		_, err := survivor.Netctl(ctx, "tenant", "create", "successor")
		if err == nil {
			took := time.Since(since)
			_, err = survivor.Netctl(ctx, "tenant", "rm", "successor")
			return took, err
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("no new leader: %w", err)
		}
	}
}
