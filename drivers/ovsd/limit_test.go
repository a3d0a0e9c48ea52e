package ovsd_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// limitMeters returns the meters of limits, as the switch prints them.
func (n *node) limitMeters() string {
	n.t.Helper()
	var found []string
	for _, line := range strings.Split(n.Ofctl("dump-meters", bridge), "meter=") {
		if strings.Contains(line, "kbps") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}

// A limit is added, changed, and removed with its meters under traffic.
func TestALimitThatChangesLosesNoPacket(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	a.reaches(b.endpoint.IPv4.String())
	before := n.sortedFlows()
	// The meters for what a pod receives and sends, by its port.
	meters := func(band string) string {
		return fmt.Sprintf("%[1]d kbps burst stats bands= type=drop %[3]s; %[2]d kbps burst stats bands= type=drop %[3]s",
			0x20000|a.port.OFPort, 0x10000|a.port.OFPort, band)
	}
	steps := []struct {
		limits pipeline.Limits
		meters string
	}{
		{pipeline.Limits{Rate: 10485}, meters("rate=10485 burst_size=8000")},
		{pipeline.Limits{Rate: 20971, Burst: 819, DSCP: 46}, meters("rate=20971 burst_size=819")},
		{pipeline.Limits{DSCP: 46}, ""},
		{pipeline.Limits{}, ""},
	}
	losesNothing(t, a, b, 2, func() {
		for _, step := range steps {
			e := a.endpoint
			e.Limits = step.limits
			r.give(drivers.Change{Set: []pipeline.Object{e}})
			if got := n.limitMeters(); got != step.meters {
				t.Fatalf("%+v: meters %q, want %q", step.limits, got, step.meters)
			}
		}
	})
	if n.sortedFlows() != before || !r.Status().InSync {
		t.Errorf("status %+v, flows:\n%s", r.Status(), strings.Join(n.flows(), "\n"))
	}
}

// Without a burst, a limit gets one with which TCP works. A busy machine may send less, or count packets that were
// queued before: the test measures again.
func TestATCPConnectionReachesItsLimit(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	const rate = 104_857 // kbit/s: 100 Mbps
	a.endpoint.Limits = pipeline.Limits{Rate: rate}
	r.give(everything(a, b))
	got := rateOfTCP(t, a, b)
	for end := time.Now().Add(time.Minute); (got < 0.85*rate || got > 1.15*rate) && time.Now().Before(end); { // headers count as well, a twentieth
		t.Logf("%.0f kbit/s of %d", got, rate)
		got = rateOfTCP(t, a, b)
	}
	if got < 0.85*rate || got > 1.15*rate {
		t.Errorf("%.0f kbit/s, want %d", got, rate)
	}
}

// rateOfTCP returns the throughput of a connection between two pods, in kbit/s.
func rateOfTCP(t *testing.T, a, b *pod) float64 {
	t.Helper()
	server := b.command("iperf3", "-s", "-1", "-p", "5201")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server listens", func() bool { return strings.Contains(b.exec("ss", "-ltn"), ":5201") })
	out := a.exec("iperf3", "-c", b.endpoint.IPv4.String(), "-p", "5201", "-t", "2", "-O", "1", "-J", "--connect-timeout", "5000")
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
	var report struct {
		End struct {
			SumReceived struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	return report.End.SumReceived.Rate / 1000
}
