package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

// streamReport is what the probe says about a stream.
type streamReport struct {
	Sent     int     `json:"sent"`
	Lost     int     `json:"lost"`
	MaxGapMS float64 `json:"maxGapMs"` // longest time between two answers
	Losses   []struct {
		At    time.Time `json:"at"`
		Count int       `json:"count"`
	} `json:"losses"`
}

// logTime is how the logs of nodes tell the time.
const logTime = "2006-01-02T15:04:05.000Z"

// during sends a datagram per millisecond to another pod, which echoes them,
// for as long as something happens, and gives how many never came back.
func (s story) during(from, to *testbed.Pod, happens func()) streamReport {
	s.Helper()
	name := "stream-" + from.Name
	log := from.Node.LogFile(name)
	if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err) // an earlier stream's
	}
	stream, err := from.Start(name, from.Probe(), "stream", "-to", net.JoinHostPort(to.IP.String(), echoPort),
		"-count", fmt.Sprint(2*storyLimit.Milliseconds()))
	s.must(err)
	defer stream.Kill() // of a story that fails meanwhile
	s.soon(shortly, func() error {
		data, err := os.ReadFile(log)
		if err == nil && !strings.Contains(string(data), "sending") {
			err = fmt.Errorf("the stream has not begun: %q", data)
		}
		return err
	})
	happens()
	s.must(stream.Terminate())
	report, err := reportIn(log)
	s.must(err)
	s.Logf("%s to %s: %d datagrams sent, %d lost, longest gap %.0f ms", from.Name, to.Name, report.Sent, report.Lost, report.MaxGapMS)
	for _, loss := range report.Losses {
		s.Logf("%d lost from %s on", loss.Count, loss.At.UTC().Format(logTime))
	}
	return report
}

// withoutLoss expects that no datagram is lost while something happens.
func (s story) withoutLoss(from, to *testbed.Pod, happens func()) {
	s.Helper()
	if r := s.during(from, to, happens); r.Lost != 0 || r.Sent == 0 {
		s.Errorf("of %d datagrams %d were lost", r.Sent, r.Lost)
	}
}

// linkChange is how many datagrams, and so milliseconds, a change of the links
// of a node may cost: Open vSwitch in user space reads its routes and tunnel
// addresses anew then, and throws tunnelled packets away meanwhile.
const linkChange = 100

// withLittleLoss is withoutLoss for what makes or removes links on the nodes
// of a tunnel.
func (s story) withLittleLoss(from, to *testbed.Pod, happens func()) {
	s.Helper()
	if r := s.during(from, to, happens); r.Lost > linkChange || r.Sent == 0 {
		s.Errorf("of %d datagrams %d were lost", r.Sent, r.Lost)
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
