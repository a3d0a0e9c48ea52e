package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/contiv/netplugin/test/testbed"
)

const (
	floodRounds  = 3      // of each kind, alternating; the median counts
	floodWorkers = 4      // that flood
	floodRate    = 80_000 // queries, or datagrams, per second
	floodBytes   = 23     // of a query
	floodSteps   = 3000   // datagrams of a neighbour, one per millisecond
	floodPort    = "7"
)

// benchDNSFlood counts the losses of a neighbour that sends a datagram per millisecond to an echo server, beside a
// pod that sends DNS queries as fast as it can, and beside the same pod sending as many ordinary datagrams to
// another one.
func benchDNSFlood(ctx context.Context, bed *testbed.Bed) ([]figure, error) {
	err := netctlAll(ctx, bed,
		[]string{"tenant", "create", "flood"},
		[]string{"network", "create", "-t", "flood", "-s", "10.37.0.0/16", "-g", "10.37.255.254", "net"},
		[]string{"group", "create", "-t", "flood", "net", "name"})
	if err != nil {
		return nil, err
	}
	pods := map[string]*testbed.Pod{}
	for _, name := range []string{"flooder", "taker", "neighbour", "echo"} {
		if pods[name], err = bed.Nodes[1].AddPod(ctx, name, "flood", "net", "name"); err != nil {
			return nil, err
		}
	}
	if err := pods["echo"].Serve(ctx, "-udp", floodPort); err != nil {
		return nil, err
	}
	flooder := pods["flooder"]
	kinds := []struct {
		lost []float64
		args []string
	}{
		{args: []string{"questions", "-server", flooder.Gateway.String(), "-workers", fmt.Sprint(floodWorkers), "-flood", fmt.Sprint(floodRate / floodWorkers), "-for", "1m", "name"}},
		{args: []string{"flood", "-to", net.JoinHostPort(pods["taker"].IP.String(), "9"), "-size", fmt.Sprint(floodBytes), "-rate", fmt.Sprint(floodRate * floodBytes * 8 / 1000), "-for", "1m"}},
	}
	for range floodRounds {
		for i, kind := range kinds {
			flood, err := flooder.Start("flood", append([]string{flooder.Probe()}, kind.args...)...)
			if err != nil {
				return nil, err
			}
			lost, err := lostBy(ctx, pods["neighbour"], pods["echo"])
			if ended := flood.Kill(); err == nil {
				err = ended
			}
			if err != nil {
				return nil, err
			}
			kinds[i].lost = append(kinds[i].lost, lost)
		}
	}
	asked, ordinary := median(kinds[0].lost), median(kinds[1].lost)
	f := figure{Name: fmt.Sprintf("of %d datagrams, lost beside %d questions per second", floodSteps, floodRate),
		Value: fmt.Sprintf("%.0f", asked), Reference: fmt.Sprintf("as many datagrams %.0f", ordinary), Ratio: "-", Goal: "not more", Met: asked <= ordinary}
	if ordinary > 0 {
		f.Ratio = fmt.Sprintf("%.2f", asked/ordinary)
	}
	return []figure{f}, nil
}

// lostBy returns how many datagrams of a stream to an echo server are lost.
func lostBy(ctx context.Context, from, to *testbed.Pod) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	// A stream with losses fails, which is not an error here.
	out, err := from.Run(ctx, "sh", "-c", `"$@" || true`, "sh", from.Probe(), "stream", "-to", net.JoinHostPort(to.IP.String(), floodPort),
		"-count", fmt.Sprint(floodSteps), "-grace", "1s")
	if err != nil {
		return 0, err
	}
	var report struct{ Sent, Lost int }
	if start := strings.IndexByte(out, '{'); start >= 0 {
		out = out[start:]
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&report); err != nil {
		return 0, fmt.Errorf("stream of %s: %w: %q", from.Name, err, out)
	}
	if report.Sent != floodSteps {
		return 0, fmt.Errorf("stream of %s: %d of %d datagrams were sent", from.Name, report.Sent, floodSteps)
	}
	return float64(report.Lost), nil
}
