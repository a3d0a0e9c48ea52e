package pipeline

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

func TestAnObjectThatCannotBeExpressedHasNoFlowsAndAReason(t *testing.T) {
	broken := func(change func(*Endpoint)) Endpoint {
		e := here(web1)
		change(&e)
		return e
	}
	lost := webBlue
	lost.VNI = 0
	for reason, o := range map[string]Object{
		"network web.blue: VNI 0 is not in":                      lost,
		"endpoint web.blue-web1: VRF is missing":                 broken(func(e *Endpoint) { e.VRF = 0 }),
		"endpoint web.blue-web1: VRF 32766 is not in":            broken(func(e *Endpoint) { e.VRF = 32766 }),
		"endpoint web.blue-web1: tiers 0x2 are unknown, or":      broken(func(e *Endpoint) { e.Tiers = IsolatesOut }),
		"endpoint web.blue-web1: tiers 0x9 are unknown, or":      broken(func(e *Endpoint) { e.Tiers = JudgesOut | IsolatesIn }),
		"endpoint web.blue-web1: tiers 0x20 are unknown, or":     broken(func(e *Endpoint) { e.Tiers = Tracked << 1 }),
		"endpoint web.blue-web1: local tag 16384 is not in":      broken(func(e *Endpoint) { e.Tag = 16384 }),
		"endpoint web.blue-web1: group 32768 is not in":          broken(func(e *Endpoint) { e.Group = 32768 }),
		"endpoint web.blue-web1: DSCP 64 is not in":              broken(func(e *Endpoint) { e.Limits.DSCP = 64 }),
		"endpoint web.blue-web1: VNI 65536 is not in":            broken(func(e *Endpoint) { e.VNI = 65536 }),
		"rule r: groups 1 and 32768 are not both in":             Rule{ID: "r", Priority: 1, SrcGroup: 1, DstGroup: 32768},
		"endpoint web.blue-web1: MAC 010000000001 is not":        broken(func(e *Endpoint) { e.MAC = mac{1, 0, 0, 0, 0, 1} }),
		"endpoint web.blue-web1: fd00:1::1 is not an IPv4":       broken(func(e *Endpoint) { e.IPv4 = web1.IPv6 }),
		"endpoint web.blue-web1: ::ffff:10.1.1.1 is not a plain": broken(func(e *Endpoint) { e.IPv6 = addr("::ffff:10.1.1.1") }),
		"rule r: priority 101 is not in":                         Rule{ID: "r", Priority: 101},
		"rule r: TCP flags \"fin\" are unknown":                  Rule{ID: "r", Priority: 1, TCPFlags: "fin"},
		"rule r: 10.0.0.0/8 and fd00::/8 are of different":       Rule{ID: "r", Priority: 1, Src: prefix("10.0.0.0/8"), Dst: prefix("fd00::/8")},
	} {
		wants, err := node1().For(o, examplePort)
		if !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), reason) {
			t.Errorf("%v: %v, want %q...", o.Key(), err, reason)
		}
		if len(wants.Flows) != 0 {
			t.Errorf("%v: %d flows", o.Key(), len(wants.Flows))
		}
	}
	if _, err := node1().For(stranger{}, 0); !fault.Is(err, fault.Unsupported) {
		t.Errorf("unknown kind: %v", err)
	}
}

type stranger struct{}

func (stranger) Key() Key          { return Key{Kind: "stranger", ID: "x"} }
func (stranger) Equal(Object) bool { return false }
