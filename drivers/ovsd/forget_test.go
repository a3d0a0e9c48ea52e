package ovsd_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// datagrams sends some to addresses, or with "on" before them until it is killed.
const datagrams = `
import itertools, socket, sys, time
on = sys.argv[1] == "on"
s = [(socket.socket(socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_DGRAM), a) for a in sys.argv[1+on:]]
print("ready", flush=True)
for i in itertools.count():
    if i == 3 and not on: break
    for one, a in s:
        one.sendto(b"x", (a, 9))
    time.sleep(0.01)
print("0 sent")
`

// What is known of the connections of an endpoint that goes is forgotten, in both zones that have them
// and in both directions, though it goes on sending; those of others stay. Of one elsewhere those made to it are.
// Echoes of IPv6 are left.
func TestConnectionsOfAnEndpointThatGoesAreEnded(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pods := []*pod{n.newPod(r, 1), n.newPod(r, 2), n.newPod(r, 3)}
	six := func(number byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0: 0xfd, 7: 1, 15: number})
	}
	for i, p := range pods {
		p.endpoint.Tiers, p.endpoint.IPv6 = pipeline.Tracked, six(byte(i+1))
		p.exec("ip", "address", "add", p.endpoint.IPv6.String()+"/64", "dev", "eth0", "nodad")
	}
	a, b, c := pods[0], pods[1], pods[2]
	far := remote(9, 0)
	far.Tiers = pipeline.Tracked
	all := everything(a, b, c)
	dual := network
	dual.Subnet6, dual.Gateway6 = netip.PrefixFrom(six(0), 64), six(254)
	all.Set[0] = dual
	r.give(all)
	r.give(drivers.Change{Set: []pipeline.Object{far}})
	addresses := func(p *pod) []string { return []string{p.endpoint.IPv4.String(), p.endpoint.IPv6.String()} }
	for _, pair := range [][2]*pod{{c, a}, {b, c}} {
		pair[0].exec("ping", "-c", "1", "-W", "5", pair[1].endpoint.IPv6.String())
		if got := pair[0].start(datagrams, addresses(pair[1])...)(); got != "0 sent" {
			t.Fatal(got)
		}
	}
	b.start(datagrams, far.IPv4.String())
	a.start(datagrams, append([]string{"on"}, addresses(b)...)...)
	tracked := func(of ...string) (count int) {
		for line := range strings.Lines(n.Appctl("dpctl/dump-conntrack")) {
			for _, address := range of {
				if !strings.HasPrefix(line, "icmpv6") {
					count += strings.Count(line, "="+address+",")
				}
			}
		}
		return count
	}
	eventually(t, "both ends of connections of both families are tracked", func() bool {
		return tracked(addresses(a)...) == 8 && tracked(addresses(b)...) == 10 && tracked(addresses(c)...) == 8 && tracked(far.IPv4.String()) == 2
	})

	r.give(drivers.Change{Remove: []pipeline.Key{a.endpoint.Key()}, Left: []pipeline.Endpoint{a.endpoint}})
	eventually(t, "nothing is tracked of the one that goes", func() bool { return tracked(addresses(a)...) == 0 })
	r.give(drivers.Change{Remove: []pipeline.Key{far.Key()}, Left: []pipeline.Endpoint{far}})
	eventually(t, "nothing is tracked of the one elsewhere", func() bool { return tracked(far.IPv4.String()) == 0 })
	if between := tracked(addresses(c)...); between != 4 {
		t.Errorf("%d addresses are tracked of one that stays, want 4:\n%s", between, n.Appctl("dpctl/dump-conntrack"))
	}
	if left := tracked(addresses(a)...); left != 0 {
		t.Errorf("%d addresses are tracked again:\n%s", left, n.Appctl("dpctl/dump-conntrack"))
	}
}
