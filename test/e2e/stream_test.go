package e2e

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/test/drops"
	"github.com/contiv/netplugin/test/testbed"
)

// streamReport is the probe's report on a stream.
type streamReport struct {
	Sent     int     `json:"sent"`
	Lost     int     `json:"lost"`
	MaxGapMS float64 `json:"maxGapMs"` // longest time between two answers
	Losses   []struct {
		At    time.Time `json:"at"`
		Count int       `json:"count"`
	} `json:"losses"`
	LastLost time.Time `json:"lastLost"` // when the last one that was lost was sent
	GapAt    time.Time `json:"gapAt"`    // when the longest gap began
	Late     int       `json:"late"`     // not sent, as the machine was too busy
	Refused  string    `json:"refused"`  // why one could not be sent, which ended the stream
}

// speaker is the source of a stream: a pod, or a machine outside.
type speaker interface {
	Start(name string, args ...string) (*testbed.Process, error)
	LogFile(program string) string
	Probe() string
}

// flow is a stream of datagrams to an echo server.
type flow struct {
	name  string // of its log
	from  speaker
	to    netip.Addr
	port  string        // empty: echoPort
	fresh bool          // each datagram is the first of a flow of its own
	tcp   bool          // instead of datagrams, numbers in one connection
	every time.Duration // from one to the next; 0: a millisecond
}

func (f flow) pace() time.Duration { return cmp.Or(f.every, time.Millisecond) }

func (f flow) target() string { return net.JoinHostPort(f.to.String(), cmp.Or(f.port, echoPort)) }

// logTime is the format of times in the logs of nodes.
const logTime = "2006-01-02T15:04:05.000Z"

// during sends a datagram per millisecond to another pod for as long as happens runs, and returns how many never
// came back.
func (s story) during(from, to *testbed.Pod, happens func()) streamReport {
	s.Helper()
	return s.whileFlowing([]flow{{name: "stream-" + from.Name, from: from, to: to.IP}}, happens)[0]
}

// whileFlowing is during for several flows at once.
func (s story) whileFlowing(flows []flow, happens func()) []streamReport {
	s.Helper()
	streams := s.begin(flows...)
	defer kill(streams) // of a story that fails meanwhile
	pods := podsOf(flows)
	before := s.drops(pods...)
	happens()
	reports := s.ended(flows, streams)
	if slices.ContainsFunc(reports, func(r streamReport) bool { return r.Lost > 0 }) {
		s.Log(s.drops(pods...).Since(before))
	}
	return reports
}

func kill(streams []*testbed.Process) {
	for _, stream := range streams {
		stream.Kill() // those that have ended are left alone
	}
}

// podsOf returns the source pods of flows.
func podsOf(flows []flow) (pods []*testbed.Pod) {
	for _, f := range flows {
		if p, isPod := f.from.(*testbed.Pod); isPod && !slices.Contains(pods, p) {
			pods = append(pods, p)
		}
	}
	return pods
}

// ended ends streams and returns their reports. A stream that ended early, as it could not send, is a failure.
func (s story) ended(flows []flow, streams []*testbed.Process) (reports []streamReport) {
	s.Helper()
	var ending errgroup.Group
	for _, stream := range streams {
		ending.Go(stream.Terminate)
	}
	s.must(ending.Wait())
	for _, f := range flows {
		r, err := reportIn(f.log())
		s.must(err)
		s.Logf("%s to %s: %d sent, %d lost, longest gap %.0f ms, at %s, %d could not be sent in time", f.name, f.target(), r.Sent, r.Lost, r.MaxGapMS, r.GapAt.UTC().Format(logTime), r.Late)
		for _, loss := range r.Losses {
			s.Logf("%d lost from %s on", loss.Count, loss.At.UTC().Format(logTime))
		}
		if r.Refused != "" {
			s.Errorf("%s to %s ended after %d: %s", f.name, f.target(), r.Sent, r.Refused)
		}
		reports = append(reports, r)
	}
	return reports
}

// drops returns the packets dropped up to now, at the sockets of pods too; those of a switch that does not run are
// unknown.
func (s story) drops(pods ...*testbed.Pod) drops.Counts {
	s.Helper()
	c, err := s.bed.Drops(s.ctx, pods...)
	if err != nil {
		s.Logf("packets that were thrown away: %v", err)
	}
	return c
}

func (f flow) log() string { return f.from.LogFile(f.name) }

// begin starts streams and returns when all of them send.
func (s story) begin(flows ...flow) (streams []*testbed.Process) {
	s.Helper()
	for _, f := range flows {
		if err := os.Remove(f.log()); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Fatal(err) // an earlier stream's
		}
		stream, err := f.from.Start(f.name, s.streamOf(f)...)
		s.must(err)
		streams = append(streams, stream)
	}
	for _, f := range flows {
		s.soon(shortly, func() error {
			data, err := os.ReadFile(f.log())
			if err == nil && !strings.Contains(string(data), "sending") {
				err = fmt.Errorf("%s: the stream has not begun: %q", f.name, data)
			}
			return err
		})
	}
	return streams
}

// streamOf returns the command of a stream that lasts as long as the story may.
func (s story) streamOf(f flow) []string {
	until, _ := s.ctx.Deadline()
	args := []string{f.from.Probe(), "stream", "-to", f.target(), "-interval", f.pace().String(), "-count", fmt.Sprint(int(time.Until(until) / f.pace()))}
	if f.fresh {
		args = append(args, "-fresh")
	}
	if f.tcp {
		args = append(args, "-tcp")
	}
	return args
}

// withoutLoss expects that no datagram is lost while something happens.
func (s story) withoutLoss(from, to *testbed.Pod, happens func()) {
	s.Helper()
	if r := s.during(from, to, happens); r.Lost != 0 || r.Sent == 0 {
		s.Errorf("of %d datagrams %d were lost", r.Sent, r.Lost)
	}
}

// loses expects that a flow loses no more than allowed; measure may be called more than once.
func (s story) loses(measure func() streamReport, allowed func(streamReport) int) {
	s.Helper()
	var r streamReport
	well := func() bool { return r.Sent > 0 && r.Lost <= allowed(r) }
	s.unlessUnread(func() (lost int) {
		if r = measure(); well() {
			return 0
		}
		return r.Lost
	})
	if !well() {
		s.Errorf("of %d datagrams %d were lost", r.Sent, r.Lost)
	}
}

// unlessUnread measures how many datagrams are lost, and again, twice at most, if the kernel dropped as many as
// are missing, since the machine did not let switches read their ports.
func (s story) unlessUnread(measure func() (lost int)) {
	s.Helper()
	for range 3 {
		before := s.drops()
		if lost := measure(); lost == 0 || s.drops().Since(before).Unread() < lost {
			return
		}
	}
}

// reportIn finds the report in the log of a stream; other lines are in it, too.
func reportIn(log string) (r streamReport, err error) {
	data, err := os.ReadFile(log)
	if err != nil {
		return r, err
	}
	start := strings.IndexByte(string(data), '{')
	if start < 0 {
		return r, fmt.Errorf("stream: no report in %q", data)
	}
	return r, json.NewDecoder(strings.NewReader(string(data[start:]))).Decode(&r)
}
