package ovsd_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
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

// echo serves port 8080 of a pod.
const echo = `
import socket, threading
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("0.0.0.0", 8080)); s.listen(64)
print("ready", flush=True)
def talk(c):
    while (d := c.recv(4096)): c.sendall(d)
while True: threading.Thread(target=talk, args=(s.accept()[0],), daemon=True).start()
`

// talk sends a datum each millisecond over each of some connections and waits
// for its answer; it prints which of them were lost, and how many were not.
const talk = `
import socket, sys, time
cs = []
for _ in range(16):
    c = socket.create_connection((sys.argv[1], 80), timeout=5); c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1); c.settimeout(0.15); cs.append(c)
print("ready", flush=True)
until, count, lost = time.monotonic() + float(sys.argv[2]), 0, set()
while time.monotonic() < until:
    for i, c in enumerate(cs):
        if i in lost: continue
        try:
            c.sendall(b"x")
            if c.recv(1) != b"x": lost.add(i)
            count += 1
        except OSError: lost.add(i)
    time.sleep(0.001)
print(len(lost), "enough" if count > 100 else "few")
`

// start runs a script in a pod and returns what waits for the rest of its output.
func (p *pod) start(script string, args ...string) (rest func() string) {
	p.t.Helper()
	cmd := p.command(append([]string{"python3", "-c", script}, args...)...)
	out, err := cmd.StdoutPipe()
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
		var lost, enough string
		_, _ = fmt.Fscanln(out, &lost, &enough)
		return lost + " " + enough
	}
}

// weighEqually gives all buckets of all groups that select the same weight.
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

// Connections outlive the driver, and what happens to other providers; those
// of a provider that goes are ended, and no others. An answer that is late by
// more than 150 ms counts as lost: TCP repeats what is lost after 200.
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
	connectionsTo := func(p *pod) int {
		return strings.Count(n.Appctl("dpctl/dump-conntrack"), "reply=(src="+p.endpoint.IPv4.String()+",")
	}

	result := client.start(talk, vip, "3")
	r.give(drivers.Change{Set: []pipeline.Object{shop(a, b, c)}})
	r.stop()
	n.weighEqually() // as an earlier version did
	r = n.start()
	r.give(all(shop(a, b, c)))
	r.give(drivers.Change{Set: []pipeline.Object{shop(a, b)}})
	if got := result(); got != "0 enough" {
		t.Errorf("restart, other providers: connections lost, others answered: %s", got)
	}

	result = client.start(talk, vip, "1")
	toA, toB := connectionsTo(a), connectionsTo(b)
	r.stop() // what goes meanwhile is seen in the switch
	r = n.start()
	r.give(all(shop(b)))
	if toA == 0 || toB == 0 {
		t.Errorf("%d and %d connections", toA, toB)
	}
	if got := result(); strings.HasPrefix(got, "0 ") || strings.HasPrefix(got, "16 ") || !strings.HasSuffix(got, "enough") {
		t.Errorf("a provider went: connections lost, others answered: %s", got)
	}
	eventually(t, "no connection to the provider that went is left", func() bool { return connectionsTo(a) == 0 })
	if left := connectionsTo(b); left < toB {
		t.Errorf("of %d connections to the other %d are left", toB, left)
	}
	r.give(drivers.Change{Set: []pipeline.Object{shop()}})
	if n.flowsWith("nw_dst="+vip) != 2 || !r.Status().InSync {
		t.Errorf("without providers: status %+v, flows:\n%s", r.Status(), strings.Join(n.flows(), "\n"))
	}
	eventually(t, "nor one to the other", func() bool { return connectionsTo(b) == 0 })
	r.give(drivers.Change{Remove: []pipeline.Key{shop().Key()}})
	if n.flowsWith("nw_dst="+vip) != 0 {
		t.Error("flows of a service that is gone")
	}
}
