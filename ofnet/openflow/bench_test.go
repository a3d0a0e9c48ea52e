package openflow_test

import (
	"net/netip"
	"testing"

	of "github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/ovstest"
)

func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

func BenchmarkEncodeFlow(b *testing.B) {
	flow := manyFlows(1)[0]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := of.Encode(1, flow); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeFlow(b *testing.B) {
	encoded, err := of.Encode(1, manyFlows(1)[0])
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := of.Decode(encoded); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMatchKey(b *testing.B) {
	flow := manyFlows(1)[0].(of.FlowMod).Flow
	b.ReportAllocs()
	for b.Loop() {
		_ = flow.MatchKey()
	}
}

// BenchmarkBundle1000Flows includes the switch's work.
func BenchmarkBundle1000Flows(b *testing.B) {
	s := ovstest.Start(b)
	s.AddBridge("br0")
	c, err := of.Dial(b.Context(), s.Bridge("br0"), of.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	messages := manyFlows(1000)
	for b.Loop() {
		if err := c.Bundle(b.Context(), messages...); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRead1000Flows reads them back.
func BenchmarkRead1000Flows(b *testing.B) {
	s := ovstest.Start(b)
	s.AddBridge("br0")
	c, err := of.Dial(b.Context(), s.Bridge("br0"), of.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if err := c.Bundle(b.Context(), manyFlows(1000)...); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if flows, err := c.Flows(b.Context(), of.FlowFilter{}); err != nil || len(flows) != 1000 {
			b.Fatalf("%d flows, %v", len(flows), err)
		}
	}
}
