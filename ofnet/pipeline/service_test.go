package pipeline

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/testkit"
)

// Addresses of the service of the example.
var vip, vip6 = addr("10.1.1.200"), addr("fd00:1::c8")

// shop returns the example's service, in the network web.blue.
func shop(providers ...netip.Addr) Service {
	return serving(FromPods, providers, vip)
}

// serving returns a service with two ports at each of its addresses.
func serving(from Clients, providers []netip.Addr, at ...netip.Addr) Service {
	s := Service{ID: "shop:blue", VRF: blueVRF, Tag: webBlue.Tag, Providers: providers}
	for _, a := range at {
		s.Ports = append(s.Ports, ServicePort{Address: a, From: from, Protocol: openflow.ProtoTCP, Port: 80, Target: 8080},
			ServicePort{Address: a, From: from, Protocol: openflow.ProtoUDP, Port: 53, Target: 5353})
	}
	return s.Numbered(noneTaken)
}

// addressesOf returns the addresses of endpoints, of both IP families.
func addressesOf(all ...Endpoint) (list []netip.Addr) {
	for _, e := range all {
		list = append(list, e.IPv4, e.IPv6)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}

// noneTaken reports every number as free.
func noneTaken(uint32) bool { return false }

// server answers a port of a pod, over TCP and UDP, with a text. Over TCP, a client can request a reset.
const server = `
import socket, struct, sys, threading
tcp = socket.socket(socket.AF_INET6); tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); tcp.bind(("::", 8080)); tcp.listen(64)
udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM); udp.bind(("::", 5353))
def caller(a): return a[0].replace("::ffff:", "")
def talk(c, a):
    while True:
        d = c.recv(65536)
        if not d: return c.close()
        if d == b"reset":
            c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return c.close()
        c.sendall((sys.argv[1] + " " + caller(a) + "\n").encode())
def streams():
    while True:
        c, a = tcp.accept()
        threading.Thread(target=talk, args=(c, a), daemon=True).start()
threading.Thread(target=streams, daemon=True).start()
print("ready", flush=True)
while True:
    d, a = udp.recvfrom(65536)
    udp.sendto((sys.argv[1] + " " + caller(a) + "\n").encode() + b"x" * (4000 if d == b"long" else 0), a)
`

// client sends some requests to a service and prints, for each, the answer and its source. A datagram without an
// answer within a second is sent again by the same socket, as TCP does by itself.
const client = `
import socket, sys
to, kind, port, text, tries = sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5].encode(), int(sys.argv[6])
tcp = kind == "tcp"
for _ in range(int(sys.argv[1])):
    s = socket.socket(socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(tries if tcp else 1)
    if len(sys.argv) > 7: s.bind((sys.argv[7], 0))
    s.connect((to, port))
    d = b""
    for left in reversed(range(1 if tcp else tries)):
        s.send(text)
        try:
            while not b"\n" in d: d += s.recv(65536)
            break
        except socket.timeout:
            if not left: raise
    print(d.split(b"\n")[0].decode(), s.getpeername()[0], len(d))
    s.close()
`

// serveShop starts the server in a pod.
func (p *pod) serveShop() {
	p.t.Helper()
	p.run(server, p.ID)
}

// run runs a script in a pod until the test ends; it returns when it is ready.
func (p *pod) run(script string, args ...string) {
	p.t.Helper()
	cmd := p.command(append([]string{testkit.Python, "-ISc", script}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if _, err := out.Read(make([]byte, 16)); err != nil {
		p.t.Fatal(err)
	}
}

// requests returns the answer of a service, or the error; from is the client's address, if it matters.
func (p *pod) requests(to netip.Addr, kind string, port int, text string, from ...netip.Addr) string {
	return p.requestsTimes(1, to, kind, port, text, from...)[0]
}

// requestsTimes returns the answers to several requests, or one error.
func (p *pod) requestsTimes(times int, to netip.Addr, kind string, port int, text string, from ...netip.Addr) []string {
	return p.client(times, soon, to, kind, port, text, from)
}

// deniedRequest is requests where no answer is expected: it waits for a second.
func (p *pod) deniedRequest(to netip.Addr, kind string, port int, text string, from ...netip.Addr) string {
	return p.client(1, time.Second, to, kind, port, text, from)[0]
}

// client runs the client; within is the time limit of each request.
func (p *pod) client(times int, within time.Duration, to netip.Addr, kind string, port int, text string, from []netip.Addr) []string {
	args := []string{testkit.Python, "-ISc", client, fmt.Sprint(times), to.String(), kind, fmt.Sprint(port), text, fmt.Sprint(within.Seconds())}
	for _, a := range from {
		args = append(args, a.String())
	}
	out, err := p.exec(args...)
	if err != nil {
		lines := strings.Split(strings.TrimSpace(out+err.Error()), "\n")
		return []string{"error: " + lines[len(lines)-1]}
	}
	return strings.Split(strings.TrimSpace(out), "\n")
}

// Clients on both nodes and in both networks, providers likewise.
func TestAServiceAnswersEveryPodOfItsTenant(t *testing.T) {
	c := startCluster(t, web1, db1, web2, db2, red1)
	c.program(serving(FromPods, addressesOf(web1, web2), vip, vip6))
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	for at, clients := range map[netip.Addr][]Endpoint{vip: {web1, db1, web2, db2}, vip6: {web1, db2}} {
		for _, e := range clients {
			if c.pod(e).pinged(at) != freshTTL {
				t.Errorf("%s: no ping of %s", e.ID, at)
			}
			c.served(e, at, web1, web2)
			if e.ID == web1.ID || e.ID == web2.ID {
				continue
			}
			// In fragments, as it is larger than the MTU.
			if got := c.pod(e).requests(at, "udp", 53, "long"); !strings.Contains(got, at.String()+" 40") {
				t.Errorf("%s: long answer %q", e.ID, got)
			}
			if got := c.pod(e).requestsTimes(3, at, "udp", 53, strings.Repeat("y", 4000)); len(got) != 3 {
				t.Errorf("%s: long question to %s: %s", e.ID, at, got)
			}
		}
		if got := c.pod(red1).deniedRequest(at, "tcp", 80, "hello"); !strings.HasPrefix(got, "error") {
			t.Errorf("another tenant is answered: %s", got)
		}
	}
	for _, own := range []netip.Addr{web2.IPv4, web2.IPv6} {
		if got := c.pod(db1).requests(own, "tcp", 8080, "direct"); !strings.HasPrefix(got, web2.ID) || !strings.Contains(got, own.String()) {
			t.Errorf("a provider by its own address: %s", got)
		}
	}
	if tracked := c.pod(db1).node.Appctl("dpctl/dump-conntrack"); strings.Contains(tracked, "dport=8080)") {
		t.Errorf("what is not for a service is tracked:\n%s", tracked)
	}
}

// In a bridged network, too, on both nodes; a provider's request to itself comes from the service's address.
// Requests of other networks' members, and to other ports, are dropped.
func TestAServiceOfABridgedNetworkAnswersItsMembers(t *testing.T) {
	c := startBridged(t)
	s := Service{ID: "shop:blue", Mode: lanBlue.Mode, VRF: blueVRF, Tag: lanBlue.Tag, Providers: addressesOf(lan1, lan2)}
	for _, a := range []netip.Addr{addr("10.1.4.200"), addr("fd00:4::c8")} {
		s.Ports = append(s.Ports, ServicePort{Address: a, From: FromPods, Protocol: 6, Port: 80, Target: 8080},
			ServicePort{Address: a, From: FromPods, Protocol: 17, Port: 53, Target: 5353})
	}
	s = s.Numbered(noneTaken)
	c.program(s)
	for _, e := range []Endpoint{lan1, lan2} {
		c.pod(e).serveShop()
	}
	for at, clients := range map[netip.Addr][]Endpoint{s.Ports[0].Address: {lan1, lan3}, s.Ports[2].Address: {lan2}} {
		for _, e := range clients {
			if c.pod(e).pinged(at) != freshTTL {
				t.Errorf("%s: no ping of %s", e.ID, at)
			}
			c.servedAs(e, at, at, lan1, lan2)
		}
		if got := c.pod(lan3).requests(at, "udp", 53, "long"); !strings.Contains(got, at.String()+" 40") {
			t.Errorf("long answer %q", got)
		}
		if got := c.pod(lr1).deniedRequest(at, "tcp", 80, "hello"); !strings.HasPrefix(got, "error") {
			t.Errorf("another tenant is answered: %s", got)
		}
	}
	n := c.pod(lan3).node
	in := packet{inPort: c.pod(lan3).port, src: lan3.MAC, dst: AnycastMAC, from: lan3.IPv4, kind: "tcp,tp_dst=80"}
	for name, to := range map[string]netip.Addr{"nobody's address": addr("10.1.4.77"), "a member, by the gateway's MAC": lan1.IPv4, "outside": beyond[0]} {
		in.to = to
		if got := n.verdict(t, in); got != "drop" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// served checks that each of the providers answers an endpoint at an address, by TCP and UDP.
func (c *cluster) served(client Endpoint, at netip.Addr, providers ...Endpoint) {
	c.t.Helper()
	c.servedAs(client, at, familyOf(at).hairpinAddress(), providers...)
}

// servedAs is served, with the address that a provider sees in its own requests.
func (c *cluster) servedAs(client Endpoint, at, itself netip.Addr, providers ...Endpoint) {
	c.t.Helper()
	for kind, port := range map[string]int{"tcp": 80, "udp": 53} {
		c.askedAs(c.pod(client), at, kind, port, func(provider string) netip.Addr {
			switch f := familyOf(at); {
			case provider == client.ID:
				return itself
			case f.index() == 0:
				return client.IPv4
			}
			return client.IPv6
		}, nil, providers...)
	}
}

// askedAs checks that each of the providers answers, and sees the client at an address. from is the client's
// address, if it has several.
func (c *cluster) askedAs(client *pod, at netip.Addr, kind string, port int, as func(provider string) netip.Addr, from []netip.Addr, providers ...Endpoint) {
	c.t.Helper()
	seen := map[string]int{}
	for range 6 {
		for _, got := range client.requestsTimes(10, at, kind, port, "hello", from...) {
			provider, _, _ := strings.Cut(got, " ")
			if !strings.HasPrefix(got, provider+" "+as(provider).String()+" "+at.String()) {
				c.t.Errorf("%s asks %s by %s: %q", client.ID, at, kind, got)
			}
			seen[provider]++
		}
		if len(seen) == len(providers) {
			return
		}
	}
	c.t.Errorf("%s asks %s by %s and is answered by %v", client.ID, at, kind, seen)
}

func TestOnlyTheConnectionsOfAProviderThatGoesAreEnded(t *testing.T) {
	c := startCluster(t, db1, web1, web2)
	wants := wantsOf(c.nodes[0].pipeline, shop(web1.IPv4, web2.IPv4), 0)
	var ends []openflow.Message
	for _, g := range wants.Groups {
		for _, end := range Connections(g) {
			if end.From.Addr() == web1.IPv4 {
				ends = append(ends, end)
			}
		}
	}
	c.program(shop(web1.IPv4, web2.IPv4))
	for _, e := range []Endpoint{web1, web2} {
		c.pod(e).serveShop()
	}
	n := c.pod(db1).node
	connections := func(provider Endpoint) int {
		return strings.Count(n.Appctl("dpctl/dump-conntrack"), "src="+provider.IPv4.String()+",dst="+db1.IPv4.String())
	}
	for tries := 0; connections(web1) == 0 || connections(web2) == 0; tries++ {
		if tries == 20 {
			t.Fatalf("one provider only:\n%s\n%s", n.Appctl("dpctl/dump-conntrack"), n.Ofctl("dump-groups", bridge))
		}
		if got := c.pod(db1).requests(vip, "tcp", 80, "hello"); strings.HasPrefix(got, "error") {
			t.Fatal(got)
		}
	}
	n.connected(t, func(conn *openflow.Conn) error { return conn.Send(t.Context(), slices.Clone(ends)...) })
	if connections(web1) != 0 || connections(web2) == 0 {
		t.Errorf("%d and %d connections are left:\n%s", connections(web1), connections(web2), n.Appctl("dpctl/dump-conntrack"))
	}
}

// A connection without room in the connection tracker is dropped once, with a reason, instead of being sent to
// another provider again and again until the datapath drops it: on the client's node, and on the provider's node
// if the client entered by another node's host.
func TestAConnectionWithoutRoomIsDropped(t *testing.T) {
	c := startCluster(t, db1, web2)
	plain, sticky := serving(FromPods|FromHost, addressesOf(web2), external, vip6), serving(FromPods, addressesOf(web2), vip)
	sticky.ID, sticky.Affinity = "sticky:blue", 600
	host := c.withOutside(db1, plain, sticky.Numbered(noneTaken))
	host.route(external)
	c.pod(web2).serveShop()
	const sent, datagrams = 5, `
import socket, sys
for _ in range(5): socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (sys.argv[1], 53))
`
	for _, test := range []struct {
		name   string
		client *pod
		at     netip.Addr
		full   *node // by a connection of the client to the service without affinity
	}{
		{"a client that came in by another node", host, external, c.pod(web2).node},
		{"a service", c.pod(db1), external, c.pod(db1).node},
		{"a service by IPv6", c.pod(db1), vip6, c.pod(db1).node},
		{"a service whose clients keep their providers", c.pod(db1), vip, c.pod(db1).node},
	} {
		// Created again each time: an idle connection expires within a minute.
		test.full.Appctl("dpctl/flush-conntrack", fmt.Sprintf("zone=%d", blueVRF))
		test.full.Appctl("dpctl/ct-set-limits", fmt.Sprintf("zone=%d,limit=1", blueVRF))
		if got := test.client.requests(external, "udp", 53, "hello"); strings.HasPrefix(got, "error") {
			t.Fatalf("%s: the first one: %s", test.name, got)
		}
		before := test.full.dropped(t, reasonFull)
		if out, err := test.client.exec(testkit.Python, "-ISc", datagrams, test.at.String()); err != nil {
			t.Fatal(out, err)
		}
		if got := settled(before+sent, func() uint64 { return test.full.dropped(t, reasonFull) }); got != before+sent {
			t.Errorf("%s: %d were sent, %d dropped for want of room", test.name, sent, got-before)
		}
		if got := strings.TrimSpace(test.full.Appctl("coverage/read-counter", "datapath_drop_recirc_error")); got != "0" {
			t.Errorf("%s: %s went round until the datapath gave up", test.name, got)
		}
	}
}
