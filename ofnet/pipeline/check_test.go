package pipeline

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/utils/fault"
)

func TestAnObjectThatCannotBeExpressedHasNoFlowsAndAReason(t *testing.T) {
	broken := func(change func(*drivers.Endpoint)) drivers.Endpoint {
		e := here(web1)
		change(&e)
		return e
	}
	lost := webBlue
	lost.VNI = 0
	for reason, o := range map[string]drivers.Object{
		"network web.blue: VNI 0 is not in":                      lost,
		"endpoint web.blue-web1: VRF is missing":                 broken(func(e *drivers.Endpoint) { e.VRF = 0 }),
		"endpoint web.blue-web1: local tag 16384 is not in":      broken(func(e *drivers.Endpoint) { e.Tag = 16384 }),
		"endpoint web.blue-web1: MAC 010000000001 is not":        broken(func(e *drivers.Endpoint) { e.MAC = mac{1, 0, 0, 0, 0, 1} }),
		"endpoint web.blue-web1: fd00:1::1 is not an IPv4":       broken(func(e *drivers.Endpoint) { e.IPv4 = web1.IPv6 }),
		"endpoint web.blue-web1: ::ffff:10.1.1.1 is not a plain": broken(func(e *drivers.Endpoint) { e.IPv6 = addr("::ffff:10.1.1.1") }),
		"rule r: priority 101 is not in":                         drivers.Rule{ID: "r", Priority: 101},
		"rule r: TCP flags \"fin\" are unknown":                  drivers.Rule{ID: "r", Priority: 1, TCPFlags: "fin"},
		"rule r: 10.0.0.0/8 and fd00::/8 are of different":       drivers.Rule{ID: "r", Priority: 1, Src: prefix("10.0.0.0/8"), Dst: prefix("fd00::/8")},
	} {
		err := Check(o)
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), reason) {
			t.Errorf("%v: %v, want %q...", o.Key(), err, reason)
		}
		if flows := node1().Flows(o, examplePort); len(flows) != 0 {
			t.Errorf("%v: %d flows", o.Key(), len(flows))
		}
	}
	if err := Check(drivers.Object(stranger{})); !fault.Is(err, fault.Unsupported) {
		t.Errorf("unknown kind: %v", err)
	}
}

type stranger struct{}

func (stranger) Key() drivers.Key { return drivers.Key{Kind: "stranger", ID: "x"} }
