package ovsd_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/refusal"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// A service of a routed VLAN is reached by pods, and by an external router that has a route to its address; its
// provider is reached by its own address.
func TestRoutersOutsideReachServicesOfRoutedVLANs(t *testing.T) {
	rn := newRoutedNode(t)
	provider, client := rn.pods[0], rn.pods[1]
	provider.start(echo)
	vip := netip.MustParseAddr("10.1.0.200")
	rn.out.Exec("ip", "route", "add", vip.String()+"/32", "via", "198.18.5.9")

	serving := []netip.AddrPort{netip.AddrPortFrom(provider.endpoint.IPv4, 8080)}
	port := pipeline.ServicePort{Address: vip, From: pipeline.FromPods, Protocol: openflow.ProtoTCP, Port: 80, Target: 8080}
	outer := pipeline.ServicePort{Address: vip, From: pipeline.FromOutside, Protocol: openflow.ProtoTCP, Port: 80, Serving: serving}
	shop := func(ports ...pipeline.ServicePort) pipeline.Service {
		return pipeline.Service{ID: "shop:blue", Encap: pipeline.VLAN, VRF: pipeline.SharedVRF, Tag: rn.routed.Tag,
			Providers: []netip.Addr{provider.endpoint.IPv4}, Ports: ports}.Numbered(func(uint32) bool { return false })
	}
	neighbour := rn.next("198.18.5.1", "native")
	state := drivers.Change{Replace: true, Set: []pipeline.Object{rn.routed, rn.router, neighbour,
		routeTo("198.18.5.1/32", neighbour), provider.endpoint, client.endpoint, shop(port, outer)}}
	rn.r.give(state)
	if s := rn.r.Status(); !s.InSync || s.LastError != "" {
		t.Errorf("status %+v", s)
	}

	eventually(t, "the node meets the router", func() bool { // afterwards it knows the MAC of the router's interface
		_, err := rn.Try("ping", "-c1", "-W1", "-n", "-q", "198.18.5.1")
		return err == nil
	})
	for _, host := range []string{provider.endpoint.IPv4.String(), vip.String()} {
		for range 2 { // one each: when one of several is answered, ping waits for the others no longer than the interval
			eventually(t, "an answer to a ping of "+host, func() bool {
				_, err := rn.out.Try("ping", "-c1", "-W1", "-n", host)
				return err == nil
			})
		}
	}
	if said, err := rn.out.Try("timeout", "10", "bash", "-c", ": </dev/tcp/"+provider.endpoint.IPv4.String()+"/8080"); err != nil {
		t.Errorf("the provider's own port: %v %s", err, said)
	}
	ctx, stop := context.WithCancel(t.Context())
	refusing := make(chan error, 1)
	go func() { refusing <- refusal.Serve(ctx, rn.r, logrus.WithField("component", "refusal")) }()
	if said, err := rn.out.Try("timeout", "20", "bash", "-c", ": </dev/tcp/"+vip.String()+"/81"); err == nil || !strings.Contains(said+err.Error(), "refused") {
		t.Errorf("a port that the service does not have: %v %s", err, said)
	}
	stop()
	<-refusing
	asked := func() string {
		said, err := rn.out.Try("timeout", "120", testkit.Python, "-ISc", talk, vip.String(), "2")
		if err != nil {
			said = err.Error()
		}
		return strings.Join(strings.Fields(said), " ")
	}
	result := make(chan string, 1)
	go func() { result <- asked() }()
	eventually(t, "connections", func() bool {
		return strings.Contains(rn.Appctl("dpctl/dump-conntrack"), "src=198.18.5.1,dst="+vip.String())
	})
	rn.r.stop()
	rn.r = rn.startVLAN()
	rn.r.give(state)
	if got := <-result; got != "ready 0 enough" {
		t.Errorf("from outside, while the driver restarts: connections lost, others answered: %s", got)
	}
	eventually(t, "the machine outside is a client whose requests and answers are counted", func() bool {
		counted, err := rn.r.Counters(patience(t), shop().Key())
		if err != nil {
			t.Fatal(err)
		}
		what := pipeline.Served{Provider: provider.endpoint.IPv4, Address: vip, Protocol: openflow.ProtoTCP, Port: 80}
		requests := counted[shop().Key()].Served[what]
		what.Answers = true
		return requests.Packets > 0 && counted[shop().Key()].Served[what].Packets > 0
	})
	if got := client.start(talk, vip.String(), "1")(); got != "0 enough" {
		t.Errorf("a pod: %s", got)
	}
	rn.r.give(drivers.Change{Set: []pipeline.Object{shop(port)}})
	for range 2 { // the first may end with a revalidation that began before the change
		rn.Appctl("revalidator/wait")
	}
	if _, err := rn.out.Try("timeout", "1", "bash", "-c", ": </dev/tcp/"+vip.String()+"/80"); err == nil {
		t.Error("served without a port for who comes in by the uplink")
	}
}
