package netctl

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/contivmodel"
)

func TestLargeNumbersAreWrittenOut(t *testing.T) {
	f, url := startFake(t)
	populate(f)
	f.oper = map[string]any{"numEndpoints": 1050000, "pktTag": 16777215}
	wantOutcome(t, "-o wide", run(t, url, "policy ls -t blue -o wide --no-headers"), outcome{stdout: "blue  p1  0  0  1050000\n"})
	for _, line := range []string{"describe network web -t blue", "network ls -t blue -o wide", "get network web -t blue -o wide"} {
		if got := run(t, url, line); !strings.Contains(got.stdout, "1050000") || !strings.Contains(got.stdout, "16777215") {
			t.Errorf("netctl %s: %v", line, got)
		}
	}
}

func TestDescriptionsShowWhatHasBeenCounted(t *testing.T) {
	f, url := startFake(t)
	populate(f)
	wantOutcome(t, "endpoint", run(t, url, "describe endpoint busy"), outcome{stdout: `endpoint/busy

State:
  endpointID:  busy

Counters:
Packets received  Bytes received  Packets sent  Bytes sent
----------------  --------------  ------------  ----------
4000000           12345678901     30            1500000
`})
	f.oper = contivmodel.ServiceLBOper{ServiceVip: "10.7.0.9", Counters: map[string]contivmodel.EndpointCounters{
		"10.7.0.3": {RxPackets: 5, RxBytes: 500}, "10.7.0.2": {TxPackets: 6, TxBytes: 600}}}
	want := `
State:
  serviceVip:  10.7.0.9

Counters:
Address   Packets received  Bytes received  Packets sent  Bytes sent
-------   ----------------  --------------  ------------  ----------
10.7.0.2  0                 0               6             600
10.7.0.3  5                 500             0             0
`
	if got := run(t, url, "describe service s -t blue"); !strings.HasSuffix(got.stdout, want) {
		t.Errorf("service: %v", got)
	}
}

func TestANetworkPolicyIsDescribedByWhereItIsInForce(t *testing.T) {
	_, url := startFake(t)
	want := outcome{stdout: `network-policy/shop/db

State:
  key:       shop:db
  missing:   1
  nodes:     n1,n2
  realised:  on 1 of 2 nodes

Missing:
Node  Why
----  ---
n2    its switch refuses rules of the policy: no?[2J room
`}
	for _, line := range []string{"describe network-policy shop/db", "describe netpol/shop/db", "describe NetworkPolicies shop:db"} {
		wantOutcome(t, line, run(t, url, line), want)
	}
	if got := run(t, url, "network-policy inspect shop/db"); got.code != 0 || !strings.Contains(got.stdout, `"realised": "on 1 of 2 nodes"`) {
		t.Errorf("inspected: %v", got)
	}
}
