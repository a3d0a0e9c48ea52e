package ovsd_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/drivers/ovsd"
)

// slowed reports whether the switch has a meter for what a port sends.
func (n *node) slowed(p *pod) bool {
	n.t.Helper()
	return n.flowsWith(fmt.Sprintf("in_port=%d actions=meter:%d,move:NXM_NX_PKT_MARK[0]->NXM_NX_REG4[0],group:3", p.port.OFPort, 199_936+p.port.OFPort%32)) == 1
}

// datapathFlows returns the datapath's flows for packets of a port: those before any recirculation, and those
// behind a meter.
func (n *node) datapathFlows(p *pod) (before, behind []string) {
	n.t.Helper()
	for line := range strings.Lines(n.Appctl("dpctl/dump-flows", "--names")) {
		switch {
		case !strings.Contains(line, "in_port("+p.port.HostLink+")"):
		case strings.Contains(line, "recirc_id(0)"):
			before = append(before, line)
		default:
			behind = append(behind, line)
		}
	}
	return before, behind
}

// toldOf returns the number of lines of a log about an endpoint that begin with a text.
func toldOf(said *test.Hook, p *pod, text string) (times int) {
	for _, e := range said.AllEntries() {
		if strings.HasPrefix(e.Message, text) && e.Data["endpoint"] == p.endpoint.ID {
			times++
		}
	}
	return times
}

func TestWhoMakesVeryManyMasksIsSlowedDownAndNobodyElse(t *testing.T) {
	n := newNode(t)
	logger, said := test.NewNullLogger()
	n.config.AuditInterval, n.config.Log = 200*time.Millisecond, logrus.NewEntry(logger)
	n.config.SlowFrom = 40
	r := n.start()
	quiet, other, loud, host := n.newPod(r, 1), n.newPod(r, 2), n.newPod(r, 3), n.newPod(r, 4)
	host.endpoint.Host = true
	give := func() { r.give(everything(quiet, other, loud, host)) }
	give()
	quiet.reaches(other.endpoint.IPv4.String())
	usual := n.sortedFlows()

	end := loud.start(sendAllKinds, loud.endpoint.IPv4.String())
	hostEnds := host.start(sendAllKinds, host.endpoint.IPv4.String())
	eventually(t, "the port is slowed down", func() bool { return n.slowed(loud) })
	eventually(t, "only what the meter lets pass is looked up", func() bool {
		before, behind := n.datapathFlows(loud)
		return len(before) > 0 && len(before) <= 4 && len(behind) > 0 && len(behind) < 200
	})
	eventually(t, "its meter drops", func() bool { return n.meterDrops(199_936+loud.port.OFPort%32) > 0 })
	if told := toldOf(said, loud, "slowed down for 5m0s: "); told != 1 || slowedEndpoints(t, r) != 1 {
		t.Errorf("told %d times, and the metric says %v", told, slowedEndpoints(t, r))
	}

	// Restarts, audits and changes of other objects leave it slowed down, and other pods lose no packet.
	losesNothing(t, quiet, other, 2, func() {
		r.stop()
		r = n.start()
		give()
		if !n.slowed(loud) || n.slowed(quiet) || n.slowed(host) {
			t.Errorf("after a restart: the loud one is slowed %v, the quiet one %v, the host %v", n.slowed(loud), n.slowed(quiet), n.slowed(host))
		}
	})
	n.Ofctl("del-flows", bridge, fmt.Sprint("table=0,in_port=", loud.port.OFPort))
	eventually(t, "an audit slows it down again", func() bool { return n.slowed(loud) })
	if told := toldOf(said, loud, "slowed down for "); told != 1 {
		t.Errorf("told %d times", told)
	}

	end()
	hostEnds()
	loud.reaches(other.endpoint.IPv4.String()) // slowed down
	// Its masks are removed once they have been idle for a while: then it is released for good. The driver must know
	// that, too: with an older count it would slow the pod down again.
	eventually(t, "its masks are gone", func() bool {
		before, behind := n.datapathFlows(loud)
		counted, is := gauge(t, r, "netplugin_datapath_masks")
		return len(before)+len(behind) < 20 && is && counted < float64(n.config.SlowFrom)
	})
	n.Vsctl("remove", "interface", loud.port.HostLink, "external_ids", "slowed")
	eventually(t, "who is freed by hand has the flows of before", func() bool { return n.sortedFlows() == usual && slowedEndpoints(t, r) == 0 })
}

func TestWhoStopsIsFreedAndWhoGoesOnIsSlowedDownForLonger(t *testing.T) {
	n := newNode(t)
	logger, said := test.NewNullLogger()
	n.config.AuditInterval, n.config.Log = 200*time.Millisecond, logrus.NewEntry(logger)
	n.config.SlowFrom, n.slowTime = 40, time.Second
	n.Vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500") // idle flows expire soon
	r := n.start()
	loud := n.newPod(r, 1)
	r.give(everything(loud))
	usual := n.sortedFlows()
	end := loud.start(sendAllKinds, loud.endpoint.IPv4.String())
	eventually(t, "the log tells who is slowed down", func() bool { return toldOf(said, loud, "slowed down for 1s: ") == 1 })
	eventually(t, "who goes on is slowed down for longer", func() bool {
		return toldOf(said, loud, "not slowed down any more") > 0 && toldOf(said, loud, "slowed down for 2s: ") == 1
	})
	end()
	eventually(t, "who stops is freed, and forgotten", func() bool {
		return n.sortedFlows() == usual && !strings.Contains(n.column("interface", loud.port.HostLink, "external_ids"), "slowed")
	})
}

func TestNobodyIsSlowedDownWhereThatIsOff(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval, n.config.SlowFrom = 100*time.Millisecond, 40
	r := n.start()
	loud := n.newPod(r, 1)
	r.give(everything(loud))
	end := loud.start(sendAllKinds, loud.endpoint.IPv4.String())
	eventually(t, "the port is slowed down", func() bool { return n.slowed(loud) })
	r.stop()
	n.config.SlowFrom = 0
	r = n.start()
	r.give(everything(loud))
	eventually(t, "it is freed", func() bool { return !n.slowed(loud) })
	end()
}

func slowedEndpoints(t *testing.T, r *running) float64 {
	t.Helper()
	count, is := gauge(t, r, "netplugin_slowed_endpoints")
	if !is {
		t.Fatal("there is no metric")
	}
	return count
}

// gauge returns the value of a metric of the datapath, if it has one.
func gauge(t *testing.T, r *running, name string) (value float64, is bool) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(ovsd.DatapathMetrics{r.Driver}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue(), true
		}
	}
	return 0, false
}

// meterDrops returns the number of packets that a meter has dropped.
func (n *node) meterDrops(meter uint32) int {
	n.t.Helper()
	_, band, _ := strings.Cut(n.Ofctl("meter-stats", bridge, fmt.Sprint("meter=", meter)), "0: packet_count:")
	text, _, _ := strings.Cut(band, " ")
	count, _ := strconv.Atoi(text)
	return count
}
