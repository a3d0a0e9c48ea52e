package ovsd_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// datagrams sends some datagrams to addresses or, after "on", sends them until it is killed.
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

// track starts three pods of both families with connections, and one endpoint on another node; tracked counts the
// occurrences of addresses in tracked connections.
func (n *node) track(r *running) (pods []*pod, far pipeline.Endpoint, all drivers.Change, tracked func(of ...netip.Addr) int) {
	n.t.Helper()
	six := func(number byte) netip.Addr {
		return netip.AddrFrom16([16]byte{0: 0xfd, 7: 1, 15: number})
	}
	for i := range byte(3) {
		p := n.newPod(r, i+1)
		p.endpoint.Tiers, p.endpoint.IPv6 = pipeline.Tracked, six(i+1)
		p.exec("ip", "address", "add", p.endpoint.IPv6.String()+"/64", "dev", "eth0", "nodad")
		pods = append(pods, p)
	}
	a, b, c := pods[0], pods[1], pods[2]
	far = remote(9, 0)
	far.Tiers = pipeline.Tracked
	all = everything(pods...)
	dual := network
	dual.Subnet6, dual.Gateway6 = netip.PrefixFrom(six(0), 64), six(254)
	all.Set[0] = dual
	all.Set = append(all.Set, far)
	r.give(all)
	zones := pipeline.Zones(network.VRF)
	n.KeepConnections(zones[:]...)
	for _, pair := range [][2]*pod{{c, a}, {b, c}} {
		pair[0].reaches(pair[1].endpoint.IPv6.String())
		if got := pair[0].start(datagrams, addressesOf(pair[1])...)(); got != "0 sent" {
			n.t.Fatal(got)
		}
	}
	b.start(datagrams, far.IPv4.String())
	a.start(datagrams, append([]string{"on"}, addressesOf(b)...)...)
	tracked = func(of ...netip.Addr) (count int) {
		for line := range strings.Lines(n.Appctl("dpctl/dump-conntrack")) {
			for _, address := range of {
				if !strings.HasPrefix(line, "icmpv6") {
					count += strings.Count(line, "="+address.String()+",")
				}
			}
		}
		return count
	}
	eventually(n.t, "both ends of connections of both families are tracked", func() bool {
		return tracked(a.own()...) == 8 && tracked(b.own()...) == 10 && tracked(c.own()...) == 8 && tracked(far.IPv4) == 2
	})
	return pods, far, all, tracked
}

// own returns the addresses of a pod.
func (p *pod) own() []netip.Addr { return []netip.Addr{p.endpoint.IPv4, p.endpoint.IPv6} }

func addressesOf(p *pod) (texts []string) {
	for _, a := range p.own() {
		texts = append(texts, a.String())
	}
	return texts
}

// The connections of a removed endpoint are flushed, in both zones and in both directions, even if it continues to
// send; those of others remain. Of an endpoint on another node, the connections to it are flushed. Echo requests
// of IPv6 are not flushed.
func TestConnectionsOfAnEndpointThatGoesAreEnded(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pods, far, _, tracked := n.track(r)
	a, c := pods[0], pods[2]
	r.give(drivers.Change{Remove: []pipeline.Key{a.endpoint.Key()}, Left: []pipeline.Endpoint{a.endpoint}})
	eventually(t, "nothing is tracked of the one that goes", func() bool { return tracked(a.own()...) == 0 })
	r.give(drivers.Change{Remove: []pipeline.Key{far.Key()}, Left: []pipeline.Endpoint{far}})
	eventually(t, "nothing is tracked of the one elsewhere", func() bool { return tracked(far.IPv4) == 0 })
	if between := tracked(c.own()...); between != 4 {
		t.Errorf("%d addresses are tracked of one that stays, want 4:\n%s", between, n.Appctl("dpctl/dump-conntrack"))
	}
	// Connections that the datapath's old flows have created meanwhile are flushed by the following rounds.
	eventually(t, "nothing is tracked again of the one that went", func() bool { return tracked(a.own()...) == 0 })
}

// A driver that stops before the connections of a removed endpoint are flushed leaves a record of it, and the next
// one continues.
func TestConnectionsThatADriverCouldNotEndAreEndedByTheNext(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pods, _, all, tracked := n.track(r)
	a := pods[0]
	noted := func() bool {
		return strings.Contains(n.Ofctl("dump-flows", bridge, "table=50"), a.endpoint.IPv4.String())
	}
	r.give(drivers.Change{Remove: []pipeline.Key{a.endpoint.Key()}, Left: []pipeline.Endpoint{a.endpoint}})
	eventually(t, "the endpoint has gone", noted)
	r.stop()
	if !noted() {
		t.Error("nothing is noted of whose connections the last round is still to come")
	}
	r = n.start()
	all.Set = slices.DeleteFunc(all.Set, func(o pipeline.Object) bool { return o.Key() == a.endpoint.Key() })
	all.Replace, all.Known = true, []string{}
	r.give(all)
	eventually(t, "nothing is tracked or noted of the one that went", func() bool { return tracked(a.own()...) == 0 && !noted() })
}

// The next driver flushes the connections of endpoints that were removed while none ran, also if another endpoint
// has the address by then. Those of an existing endpoint remain, even if its flows are not wanted yet.
func TestConnectionsOfEndpointsThatWentWhileNoDriverRanAreEnded(t *testing.T) {
	n := newNode(t)
	r := n.start()
	pods, far, all, tracked := n.track(r)
	a, b, c := pods[0], pods[1], pods[2]
	r.stop()
	r = n.start()
	all.Known = []string{}
	r.give(all)
	if got := tracked(a.own()...) + tracked(c.own()...) + tracked(far.IPv4); got != 18 {
		t.Errorf("of those that stay %d addresses are tracked, want 18", got)
	}
	r.stop()

	next := endpoint(8, 0)
	next.IPv4, next.Tiers = c.endpoint.IPv4, pipeline.Tracked
	r = n.start()
	r.add(next.ID)
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{all.Set[0], b.endpoint, next}, Known: []string{a.endpoint.ID}})
	eventually(t, "nothing is tracked of who is gone", func() bool {
		return tracked(c.own()...)+tracked(far.IPv4) == 0
	})
	if got := tracked(a.own()...); got != 4 || tracked(b.own()...) != 4 {
		t.Errorf("of one that exists and one that stays %d addresses are tracked, want 4 of each:\n%s", got, n.Appctl("dpctl/dump-conntrack"))
	}
}
