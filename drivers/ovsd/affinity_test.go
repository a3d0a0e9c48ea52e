package ovsd_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// connect opens connections to a service, one after the other, and leaves them open.
const connect = `
import socket, sys
for _ in range(int(sys.argv[2])):
    c = socket.create_connection((sys.argv[1], 80), timeout=5); c.sendall(b"x"); c.recv(1); c.close()
`

// Learned flows are not removed by an audit or a restart of the driver. A learned provider is void once it is
// removed, and its flow is deleted with its timeout and with its service. Flows that the switch learns for the
// service later are removed by the next audit.
func TestWhatAClientsProviderIsEndsWithProviderTimeAndService(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 50 * time.Millisecond
	r := n.start()
	client, a, b := n.newPod(r, 1), n.newPod(r, 2), n.newPod(r, 3)
	kept := func(seconds uint16, providers ...*pod) pipeline.Service {
		s := shop(providers...)
		s.Affinity = seconds
		return s
	}
	all := everything(client, a, b)
	all.Set = append(all.Set, kept(600, a, b))
	r.give(all)
	for _, p := range []*pod{a, b} {
		p.start(echo)
	}
	vip := shop().Ports[0].Address.String()
	asked := func(p *pod) int {
		tracked := n.Appctl("dpctl/dump-conntrack")
		return strings.Count(tracked, "dst="+vip+",") - strings.Count(tracked, "reply=(src="+p.endpoint.IPv4.String()+",")
	}
	learned := func() []string {
		return slices.DeleteFunc(n.flows(), func(f string) bool { return !strings.HasPrefix(f, "cookie=0xc1") })
	}

	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("learned: %q", learned())
		}
	})

	// Learned flows are used once the datapath's flows are revalidated.
	client.exec(testkit.Python, "-ISc", connect, vip, "1")
	n.Appctl("revalidator/wait")
	client.exec(testkit.Python, "-ISc", connect, vip, "7")
	first, other := a, b
	if asked(a) != 0 {
		first, other = b, a
	}
	if asked(first) != 0 || len(learned()) != 1 {
		t.Fatalf("%d connections have another provider; learned: %q", asked(first), learned())
	}
	n.Ofctl("add-flow", bridge, "table=1,actions=drop")
	eventually(t, "an audit", func() bool { return n.flowsWith("table=1,") == 0 })
	r.stop()
	r = n.start()
	r.give(all)
	client.exec(testkit.Python, "-ISc", connect, vip, "8")
	if asked(first) != 0 || len(learned()) != 1 {
		t.Errorf("after audits and a restart %d connections have another provider; learned: %q", asked(first), learned())
	}

	r.give(drivers.Change{Set: []pipeline.Object{kept(600, other)}})
	n.Appctl("revalidator/wait")
	client.exec(testkit.Python, "-ISc", connect, vip, "2")
	n.Appctl("revalidator/wait")
	r.give(drivers.Change{Set: []pipeline.Object{kept(600, a, b)}})
	eventually(t, "no connection to the provider that went is left", func() bool { return asked(other) == 0 })
	client.exec(testkit.Python, "-ISc", connect, vip, "8")
	if asked(other) != 0 {
		t.Errorf("the client's provider went; %d connections have another one than the next", asked(other))
	}

	// For a moment the switch may still learn with the old timeout: here the test adds such a flow itself. Clients do
	// not match it.
	before := learned()
	if len(before) != 1 {
		t.Fatalf("learned: %q", before)
	}
	r.give(drivers.Change{Set: []pipeline.Object{kept(1, a, b)}})
	n.Ofctl("add-flow", bridge, before[0])
	client.exec(testkit.Python, "-ISc", connect, vip, "1")
	n.Appctl("revalidator/wait")
	eventually(t, "the client's time is over, and nobody's flow is gone", func() bool { return len(learned()) == 0 })
	r.give(drivers.Change{Set: []pipeline.Object{kept(600, a, b)}})
	client.exec(testkit.Python, "-ISc", connect, vip, "1")
	n.Appctl("revalidator/wait")
	if len(learned()) != 1 {
		t.Errorf("learned: %q", learned())
	}
	r.give(drivers.Change{Set: []pipeline.Object{shop(a, b)}})
	if len(learned()) != 0 {
		t.Errorf("the service keeps nobody any more; learned: %q", learned())
	}
	n.Ofctl("add-flow", bridge, before[0])
	eventually(t, "what came late is gone", func() bool { return len(learned()) == 0 })
}
