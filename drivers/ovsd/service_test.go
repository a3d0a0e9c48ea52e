package ovsd_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// shop is a service of the network of these tests.
func shop(providers ...*pod) pipeline.Service {
	s := pipeline.Service{ID: "shop:blue", VRF: network.VRF, Tag: network.Tag,
		Ports: []pipeline.ServicePort{{Address: netip.MustParseAddr("10.1.0.200"), From: pipeline.FromPods, Protocol: openflow.ProtoTCP, Port: 80, Target: 8080}}}
	for _, p := range providers {
		s.Providers = append(s.Providers, p.endpoint.IPv4)
	}
	return s.Numbered(func(uint32) bool { return false })
}

// counting makes a script count the lost packets that a connection has sent: those retransmitted, except those
// that the other end reports as duplicates (DSACK, RFC 2883), which were only late.
const counting = `
import select, socket, struct, sys, threading, time
def again(c):
    info = c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("=I", info, 100)[0] - struct.unpack_from("=I", info, 216)[0] # tcpi_total_retrans, tcpi_dsack_dups
class Conn:
    def __init__(self, c):
        self.c, self.before, self.asked, self.heard = c, again(c), False, 0
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    def lost(self): return min(255, max(0, again(self.c) - self.before))
`

// echo serves port 8080 of a pod. It answers each datum with the number of packets lost on its way over the
// connection.
const echo = counting + `
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", 8080)); s.listen(64)
print("ready", flush=True)
def talk(c):
    while c.c.recv(1): c.c.sendall(bytes([c.lost()]))
while True: threading.Thread(target=talk, args=(Conn(s.accept()[0]),), daemon=True).start()
`

// talk sends a datum each millisecond over each connection that has its last answer; it prints how many of them
// lost a packet in either direction, and whether there were enough answers. It waits for late answers. A closed
// connection counts as lost, too. It ends after some seconds, or with its input if that ends later, but not before
// it has had enough answers.
const talk = counting + `
patience = 20
cs = [Conn(socket.create_connection((sys.argv[1], 80), timeout=patience)) for _ in range(16)]
for c in cs: c.c.setblocking(False)
print("ready", flush=True)
gone, count = set(), 0
def ask(which):
    for c in which:
        if c in gone or c.asked: continue
        try: c.c.sendall(b"x"); c.asked = True
        except OSError: gone.add(c)
def hear(seconds):
    global count
    waiting = {c.c: c for c in cs if c.asked and c not in gone}
    for s in select.select(list(waiting), [], [], seconds)[0]:
        c = waiting[s]
        try: answer = s.recv(1)
        except OSError: answer = b""
        if answer: c.asked, c.heard, count = False, answer[0], count + 1
        else: gone.add(c)
began = time.monotonic()
def on():
    took = time.monotonic() - began
    return took < float(sys.argv[2]) or took < 120 and len(gone) < len(cs) and (count <= 100 or not select.select([sys.stdin], [], [], 0)[0])
while on():
    ask(cs)
    time.sleep(0.001)
    hear(0)
until = time.monotonic() + patience
def unsettled(): return {c for c in cs if c not in gone and (c.asked or c.heard or c.lost())}
while time.monotonic() < until and (unsure := unsettled()):
    ask(unsure)
    hear(0.1)
print(len(gone | unsettled()), "enough" if count > 100 else "few")
`

// start runs a script in a pod; rest closes its input, waits for its end and returns the rest of its output.
func (p *pod) start(script string, args ...string) (rest func() string) {
	p.t.Helper()
	cmd := p.command(append([]string{testkit.Python, "-ISc", script}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var first string
	if _, err := fmt.Fscanln(out, &first); err != nil || first != "ready" {
		p.t.Fatalf("%q, %v", first, err)
	}
	return func() string {
		_ = in.Close()
		var lost, enough string
		_, _ = fmt.Fscanln(out, &lost, &enough)
		return lost + " " + enough
	}
}

// weighEqually gives all buckets of all select groups the same weight.
func (n *node) weighEqually() {
	n.t.Helper()
	weight, changed := regexp.MustCompile(`weight:\d+,`), 0
	for line := range strings.Lines(n.Ofctl("dump-groups", bridge)) {
		if group := strings.TrimSpace(line); weight.MatchString(group) {
			n.Ofctl("mod-group", bridge, weight.ReplaceAllString(group, ""))
			changed++
		}
	}
	if changed == 0 {
		n.t.Fatal("no group has weights")
	}
}

// Connections survive a restart of the driver, and changes of other providers; those of a removed provider are
// flushed, and no others.
func TestAProviderThatGoesTakesItsOwnConnectionsAlong(t *testing.T) {
	n := newNode(t)
	r := n.start()
	client, a, b, c := n.newPod(r, 1), n.newPod(r, 2), n.newPod(r, 3), n.newPod(r, 4)
	for _, p := range []*pod{a, b, c} {
		p.start(echo)
	}
	all := func(s pipeline.Service) drivers.Change {
		change := everything(client, a, b, c)
		change.Set = append(change.Set, s)
		return change
	}
	r.give(all(shop(a, b)))
	vip := shop().Ports[0].Address.String()
	// connectionsTo returns the client's ports of tracked connections to a provider, in a state.
	connectionsTo := func(p *pod, state string) (ports []string) {
		for line := range strings.Lines(n.Appctl("dpctl/dump-conntrack")) {
			if _, reply, _ := strings.Cut(line, "reply=(src="+p.endpoint.IPv4.String()+","); strings.Contains(reply, "state="+state) {
				_, port, _ := strings.Cut(reply, "dport=")
				port, _, _ = strings.Cut(port, ")")
				ports = append(ports, port)
			}
		}
		return ports
	}

	result := client.start(talk, vip, "3")
	r.give(drivers.Change{Set: []pipeline.Object{shop(a, b, c)}})
	r.stop()
	n.weighEqually() // as set by an earlier version
	r = n.start()
	r.give(all(shop(a, b, c)))
	r.give(drivers.Change{Set: []pipeline.Object{shop(a, b)}})
	if got := result(); got != "0 enough" {
		t.Errorf("restart, other providers: connections lost, others answered: %s", got)
	}

	result = client.start(talk, vip, "1")
	var toA, toB []string
	eventually(t, "its 16 connections are there, and those of before are over", func() bool {
		toA, toB = connectionsTo(a, "ESTABLISHED"), connectionsTo(b, "ESTABLISHED")
		return len(toA)+len(toB) == 16
	})
	r.stop() // a removal meanwhile is found by reading the switch
	r = n.start()
	r.give(all(shop(b)))
	if len(toA) == 0 || len(toB) == 0 {
		t.Errorf("%d and %d connections", len(toA), len(toB))
	}
	eventually(t, "no connection to the provider that went is left", func() bool { return len(connectionsTo(a, "")) == 0 })
	if got := result(); strings.HasPrefix(got, "0 ") || strings.HasPrefix(got, "16 ") || !strings.HasSuffix(got, "enough") {
		t.Errorf("a provider went: connections lost, others answered: %s", got)
	}
	left := connectionsTo(b, "")
	if slices.ContainsFunc(toB, func(port string) bool { return !slices.Contains(left, port) }) {
		t.Errorf("of the connections to the other, from %s, those from %s are left", toB, left)
	}
	r.give(drivers.Change{Set: []pipeline.Object{shop()}})
	if n.flowsWith("nw_dst="+vip) != 2 || !r.Status().InSync {
		t.Errorf("without providers: status %+v, flows:\n%s", r.Status(), strings.Join(n.flows(), "\n"))
	}
	eventually(t, "nor one to the other", func() bool { return len(connectionsTo(b, "")) == 0 })
	r.give(drivers.Change{Remove: []pipeline.Key{shop().Key()}})
	if n.flowsWith("nw_dst="+vip) != 0 {
		t.Error("flows of a service that is gone")
	}
}
