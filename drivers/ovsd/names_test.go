package ovsd_test

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/pipeline"
)

// withNames configures a namespace for the name server, which is removed when the test ends.
func (n *node) withNames() {
	n.config.Names, n.config.NamesNetNS = true, n.Netns+"-dns"
	n.t.Cleanup(func() { run(n.t, "sh", "-c", "ip netns del "+n.config.NamesNetNS+" 2>/dev/null || true") })
}

// named starts a node with a namespace for the name server and a pod that can query it.
func named(t *testing.T) (n *node, r *running, a *pod) {
	t.Helper()
	n = newNode(t)
	n.withNames()
	r = n.start()
	a = n.newPod(r, 1)
	r.give(everything(a))
	return n, r, a
}

// listen serves the name server's address, until it is stopped, and answers each query with the id of the asking
// endpoint.
func (r *running) listen() (gone <-chan struct{}, stop func()) {
	r.t.Helper()
	enter, gone, err := r.AwaitNames(patience(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	var socket net.PacketConn
	if err := enter(func() (err error) {
		socket, err = net.ListenPacket("udp", ":53")
		return err
	}); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_, from, err := socket.ReadFrom(make([]byte, 512))
			if err != nil {
				return // closed
			}
			id, _ := r.AskerAt(from.(*net.UDPAddr).AddrPort().Addr().Unmap())
			_, _ = socket.WriteTo([]byte(id), from) // the client may have gone
		}
	}()
	stop = func() {
		_ = socket.Close() // may already be closed
		<-ended
	}
	r.t.Cleanup(stop)
	return gone, stop
}

// asks sends the gateway a datagram, like a DNS query, and returns its answer.
func (p *pod) asks() string {
	out, _ := p.command("bash", "-c", fmt.Sprintf("exec 3<>/dev/udp/%s/53; echo who am i >&3; timeout 0.5 dd bs=512 count=1 status=none <&3", network.Gateway)).Output()
	return string(out) // fails without an answer
}

// knowsAskers waits until each pod is answered with its own id.
func knowsAskers(t *testing.T, pods ...*pod) {
	t.Helper()
	for _, p := range pods {
		eventually(t, p.endpoint.ID+" is known at the name server", func() bool { return p.asks() == p.endpoint.ID })
	}
}

func TestTheNameServerIsReachedAndToldWhoAsks(t *testing.T) {
	n := newNode(t)
	n.withNames()
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	_, stop := r.listen()
	knowsAskers(t, a, b)
	if got := n.column("interface", "dns-vxlan", "ofport"); got != "65279" {
		t.Errorf("its port is number %s", got)
	}

	// A restarted driver finds everything unchanged.
	stop()
	r.stop()
	link, config := n.Exec("ip", "-o", "link", "show", "dns-vxlan"), n.column("open_vswitch", ".", "next_cfg")
	r = n.start()
	r.give(everything(a, b))
	r.listen()
	knowsAskers(t, a, b)
	if now := n.Exec("ip", "-o", "link", "show", "dns-vxlan"); now != link {
		t.Errorf("the link was %s and is %s", link, now)
	}
	if now := n.column("open_vswitch", ".", "next_cfg"); now != config {
		t.Errorf("the rows were written: configuration %s, then %s", config, now)
	}
}

// What another program removes is restored, and the name server listens again.
func TestTheLinkOfTheNameServerIsKept(t *testing.T) {
	n, r, a := named(t)
	for _, c := range []struct {
		name  string
		harm  func()
		moves bool // the server has to listen again
	}{
		{"the port", func() { n.Vsctl("del-port", bridge, "dns-vxlan") }, false},
		{"a tag", func() { n.Vsctl("set", "port", "dns-vxlan", "tag=7") }, false},
		{"the link", func() { n.Exec("ip", "link", "del", "dns-vxlan") }, true},
		{"the namespace", func() { run(t, "ip", "netns", "del", n.config.NamesNetNS) }, true},
		{"link down", func() { n.Exec("ip", "link", "set", "dns-vxlan", "down") }, false},
	} {
		gone, stop := r.listen()
		knowsAskers(t, a)
		c.harm()
		if c.moves {
			if c.name == "the namespace" { // no notification; the change of a row triggers a check
				n.Vsctl("set", "port", "dns-vxlan", "tag=8")
			}
			select {
			case <-gone:
			case <-time.After(20 * time.Second):
				t.Fatalf("%s: nobody tells", c.name)
			}
			stop()
			_, stop = r.listen()
		}
		eventually(t, c.name+": questions are answered again", func() bool { return a.asks() == a.endpoint.ID })
		if n.flowsWith("in_port=65279") == 0 {
			t.Errorf("%s: no flows of the port", c.name)
		}
		stop()
	}
}

// While the port of the name server is missing its flows remain: it gets the same number again.
func TestTheFlowsOfTheNameServerOutliveItsPort(t *testing.T) {
	n, r, a := named(t)
	r.listen()
	knowsAskers(t, a)
	before := time.Now()
	const times = 5
	for i := range times {
		n.Vsctl("del-port", bridge, "dns-vxlan")
		eventually(t, "the port is there again", func() bool {
			return strings.TrimSpace(n.Vsctl("--if-exists", "get", "interface", "dns-vxlan", "ofport")) == "65279"
		})
		eventually(t, "questions are answered again", func() bool { return a.asks() == a.endpoint.ID })
		r.sync()
		since, flows := time.Since(before).Seconds(), 0
		for _, line := range strings.Split(n.Ofctl("--no-names", "dump-flows", bridge), "\n") {
			if !strings.Contains(line, "in_port=65279") {
				continue
			}
			flows++
			var age float64
			if _, err := fmt.Sscanf(line[strings.Index(line, "duration="):], "duration=%fs", &age); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if age < since {
				t.Fatalf("after %d of %d: a flow is %.3f s old, the port went %.3f s ago: %s", i+1, times, age, since, line)
			}
		}
		if flows == 0 {
			t.Fatalf("after %d of %d: no flows of the port", i+1, times)
		}
	}
}

// Without a name server its link and port are removed, also those of an earlier run.
func TestTheLinkOfTheNameServerGoesWithIt(t *testing.T) {
	n, r, a := named(t)
	r.listen()
	knowsAskers(t, a)
	r.stop()
	n.config.Names = false
	r = n.start()
	r.give(everything(a))
	eventually(t, "link and port are gone", func() bool {
		return !strings.Contains(n.Vsctl("list-ports", bridge), "dns-vxlan") && !strings.Contains(n.Exec("ip", "-o", "link"), "dns-vxlan")
	})
	eventually(t, "its flows are gone", func() bool { return n.flowsWith("in_port=65279") == 0 })
	if names := run(t, "ip", "netns"); strings.Contains(names, n.config.NamesNetNS) {
		t.Errorf("the namespace is still there: %s", names)
	}
}

// Adding a link costs the tunnels packets: on a node with endpoints, the link of the name server is added with the
// next port.
func TestTheLinkOfTheNameServerComesWithAnEndpoint(t *testing.T) {
	n := newNode(t)
	n.withNames()
	n.config.Names = false
	r := n.start()
	a := n.newPod(r, 1)
	r.give(everything(a))
	r.stop()
	links, config := n.Exec("ip", "-o", "link"), n.column("open_vswitch", ".", "next_cfg")
	n.config.Names = true
	r = n.start()
	r.give(everything(a))
	if now := n.Exec("ip", "-o", "link"); now != links {
		t.Errorf("the links were\n%s\nand are\n%s", links, now)
	}
	if now := n.column("open_vswitch", ".", "next_cfg"); now != config {
		t.Errorf("the rows were written: configuration %s, then %s", config, now)
	}
	b := n.newPod(r, 2)
	r.give(everything(a, b))
	r.listen()
	knowsAskers(t, a, b)
}

// The same if the endpoints are on the bridge of the tunnels, and the link is on the other one.
func TestTheLinkOfTheNameServerComesWithAnEndpointOfEitherBridge(t *testing.T) {
	n := newNode(t)
	n.Exec("ip", "link", "add", "up0", "type", "veth", "peer", "name", "up1")
	tunnel := n.start()
	tunnel.give(everything(n.newPod(tunnel, 1)))
	n.config.Uplinks = []string{"up0"}
	n.withNames()
	vlan := n.startVLAN()
	vlan.give(onNode(nil))
	there := func() bool { return strings.Contains(n.Exec("ip", "-o", "link"), "dns-vlan") }
	if there() {
		t.Error("the link is there before an endpoint comes")
	}
	tunnel.add("web.blue-2")
	eventually(t, "the link is there", there)
}

// Agents without the name server assigned all numbers to endpoints.
func TestAnEndpointWithTheNumberOfTheNameServerIsServed(t *testing.T) {
	n := newNode(t)
	n.withNames()
	n.config.Names = false
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	r.stop()
	n.Vsctl("set", "interface", a.port.HostLink, "ofport_request=65279")
	eventually(t, "it has the number", func() bool { return n.column("interface", a.port.HostLink, "ofport") == "65279" })
	n.config.Names = true
	r = n.start()
	r.give(everything(a, b))
	if flows := n.flowsWith("tp_dst=53"); flows > 0 {
		t.Errorf("%d flows lead questions to %s", flows, a.endpoint.ID)
	}
	a.reaches(b.endpoint.IPv4.String())
	c := n.newPod(r, 3) // adds the name server's port, too
	r.give(everything(a, b, c))
	r.listen()
	knowsAskers(t, a, b, c)
	a.reaches(b.endpoint.IPv4.String())
}

// Ports of the other bridge may have the same numbers.
func TestNobodyOfAnotherBridgeAsks(t *testing.T) {
	n := newNode(t)
	n.Vsctl("add-br", "other", "--", "set", "bridge", "other", "datapath_type=netdev", "--", "add-port", "other", "vvport77", "--", "set", "interface", "vvport77",
		"type=internal", "ofport_request=40", "external_ids:endpoint-id=lan.blue-1")
	eventually(t, "its port has a number", func() bool { return n.column("interface", "vvport77", "ofport") == "40" })
	r := n.start()
	r.add("web.blue-1") // by now the database has been read
	if id, known := r.AskerAt(pipeline.NamesAsker(pipeline.NamesPrefixes()[0], 40)); known {
		t.Errorf("port 40 of our bridge is of %q", id)
	}
}

func TestNobodyAsksFromAnAddressWithoutAPort(t *testing.T) {
	n := newNode(t)
	r := n.start()
	port := r.add("web.blue-1")
	for _, a := range []netip.Addr{{}, netip.MustParseAddr("169.254.255.255"), pipeline.NamesServer(pipeline.NamesPrefixes()[0])} {
		if id, known := r.AskerAt(a); known {
			t.Errorf("%s is %s", a, id)
		}
	}
	for _, p := range pipeline.NamesPrefixes() {
		if id, _ := r.AskerAt(pipeline.NamesAsker(p, port.OFPort)); id != "web.blue-1" {
			t.Errorf("port %d is of %q", port.OFPort, id)
		}
	}
}

func TestAPortThatIsGoneAsksNoMore(t *testing.T) {
	n := newNode(t)
	r := n.start()
	port := r.add("web.blue-1")
	asks := func() bool {
		_, known := r.AskerAt(pipeline.NamesAsker(pipeline.NamesPrefixes()[0], port.OFPort))
		return known
	}
	eventually(t, "the endpoint asks", asks)
	if err := r.RemovePort(t.Context(), "web.blue-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody asks", func() bool { return !asks() })
}
