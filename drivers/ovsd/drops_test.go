package ovsd_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

func TestWhatIsThrownAwayIsToldByReason(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a := n.newPod(r, 1)
	r.give(everything(a))
	unknown := a.endpoint.IPv4.Next().Next().Next()
	eventually(t, "a question for nobody is counted", func() bool {
		_ = a.command("ping", "-c", "1", "-W", "1", unknown.String()).Run() // there is no answer
		drops, err := r.Drops(patience(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(drops) != len(pipeline.Reasons()) {
			t.Errorf("%d reasons are told, there are %d", len(drops), len(pipeline.Reasons()))
		}
		return drops["no neighbour"].Packets > 0
	})
	metrics := ovsd.DropMetrics{r.Driver}
	some, err := metrics.Inspect(patience(t))
	if _, told := some[bridge]["TTL"]; err != nil || some[bridge]["no neighbour"].Packets == 0 || told {
		t.Errorf("inspection: %v, %v", some, err)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(metrics); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "netplugin_dropped_packets_total" || len(families[0].GetMetric()) != len(pipeline.Reasons()) {
		t.Errorf("numbers: %v, %v", families, err)
	}
	r.stop()
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("numbers without a switch: %v, %v", families, err)
	}
	if _, err := metrics.Inspect(patience(t)); err == nil || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("without a switch: %v", err)
	}
	again := n.start()
	again.give(everything(a))
	if some, err := (ovsd.DropMetrics{r.Driver, again.Driver}).Inspect(patience(t)); err != nil || some[bridge] == nil {
		t.Errorf("with one switch of two: %v, %v", some, err)
	}
}
