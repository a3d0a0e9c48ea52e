package hostaccess

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/testkit"
)

// Machines behind a link of the host: a node, another one, and a stranger, of each IP family.
const (
	hostEnd, hostEnd6         = "192.0.2.1", "2001:db8::1"
	nodeEnd, nodeEnd6         = "192.0.2.2", "2001:db8::2"
	otherEnd, otherEnd6       = "192.0.2.3", "2001:db8::3"
	strangerEnd, strangerEnd6 = "192.0.2.9", "2001:db8::9"
)

// makeMachines makes them.
func makeMachines(t *testing.T) {
	t.Helper()
	testkit.NeedsMachine(t)
	run(t, `set -e
ip netns add far; ip link add under0 type veth peer name up0 netns far; ip link set under0 up; ip -n far link set up0 up
ip addr add `+hostEnd+`/24 dev under0; ip addr add `+hostEnd6+`/64 dev under0 nodad
for a in `+strings.Join([]string{nodeEnd, otherEnd, strangerEnd}, " ")+`; do ip -n far addr add $a/24 dev up0; done
for a in `+strings.Join([]string{nodeEnd6, otherEnd6, strangerEnd6}, " ")+`; do ip -n far addr add $a/64 dev up0 nodad; done`)
	t.Cleanup(func() { run(t, "nft flush ruleset; ip link del under0; ip netns del far") })
}

// sendFrom has a machine send a datagram to each of two ports of the host.
func sendFrom(t *testing.T, from string, ports ...int) {
	t.Helper()
	to := hostEnd
	if netip.MustParseAddr(from).Is6() {
		to = hostEnd6
	}
	run(t, fmt.Sprintf(`ip netns exec far `+testkit.Python+` -ISc '
import socket
for port in %s:
    s = socket.socket(socket.AF_INET6 if ":" in "%[2]s" else socket.AF_INET, socket.SOCK_DGRAM); s.bind(("%[2]s", 0)); s.sendto(b"x", ("%[3]s", port))'`,
		strings.ReplaceAll(fmt.Sprint(ports), " ", ","), from, to))
}

func TestOnlyNodesSendIntoTunnels(t *testing.T) {
	makeMachines(t)
	const port, other = 4789, 4790
	receives, known := true, true
	m := New(Config{Switch: Switch{KernelReceives: func() (bool, bool) { return receives, known }}, Barred: Barred{Closed: Closed{VXLANPort: port}}})
	vteps := addresses(nodeEnd, nodeEnd6)
	look := func(m *Manager) {
		t.Helper()
		if err := m.reconcileStrangers(t.Context(), agent.HostAccess{VTEPs: vteps, AllVTEPs: true}); err != nil {
			t.Fatal(err)
		}
	}
	type heard struct{ tunnel, after func(time.Duration) bool }
	listening := map[bool]heard{}
	for _, at := range []string{hostEnd, hostEnd6} {
		listening[at == hostEnd6] = heard{listen(t, at, port), listen(t, at, other)}
	}
	// expect has each machine send, and compares the senders that are received with the wanted ones.
	expect := func(why string, want ...string) {
		t.Helper()
		for _, from := range []string{nodeEnd, otherEnd, strangerEnd, nodeEnd6, otherEnd6, strangerEnd6} {
			at, wanted := listening[strings.Contains(from, ":")], strings.Contains(" "+strings.Join(want, " ")+" ", " "+from+" ")
			sendFrom(t, from, port, other)
			if !at.after(30 * time.Second) {
				t.Fatalf("%s: nothing of %s comes", why, from)
			}
			patience := 50 * time.Millisecond // a datagram sent before the other would have arrived
			if wanted {
				patience = 30 * time.Second
			}
			if got := at.tunnel(patience); got != wanted {
				t.Errorf("%s: %s is heard: %v, want %v", why, from, got, wanted)
			}
		}
	}
	everybody := []string{nodeEnd, otherEnd, strangerEnd, nodeEnd6, otherEnd6, strangerEnd6}

	known = false
	look(m)
	expect("nobody knows yet who receives tunnels", everybody...)
	known = true
	look(m)
	expect("a node", nodeEnd, nodeEnd6)
	if listed := run(t, "nft list chain inet contiv-vteps strangers"); strings.Count(listed, "counter packets 2 ") != 2 {
		t.Errorf("strangers and others that are no nodes yet are not counted: %s", listed)
	}
	vteps = addresses(nodeEnd, nodeEnd6, otherEnd, otherEnd6)
	look(m)
	expect("a node has come", nodeEnd, nodeEnd6, otherEnd, otherEnd6)
	vteps = addresses(otherEnd, otherEnd6)
	look(m)
	expect("a node has gone", otherEnd, otherEnd6)
	for _, change := range []string{"nft delete table inet contiv-vteps", "nft flush table inet contiv-vteps", "nft add element inet contiv-vteps vteps { " + strangerEnd + " }"} {
		run(t, change)
		look(m)
		expect("after "+change, otherEnd, otherEnd6)
	}
	known = false
	m = New(m.Config)
	look(m)
	expect("the agent has started again, and does not know yet", otherEnd, otherEnd6)
	known, vteps = true, addresses(nodeEnd)
	look(m)
	expect("tunnels are of IPv4", nodeEnd)

	tables, err := RuleTables(t.Context())
	if err != nil || fmt.Sprint(tables) != "[inet contiv-vteps]" {
		t.Errorf("%v are there to be removed, %v", tables, err)
	}
	receives = false
	m = New(m.Config)
	look(m)
	expect("Open vSwitch receives tunnels itself", everybody...)
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	receives = true
	look(m)
	for _, table := range tables { // as netplugin cleanup does
		if err := table.Remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	expect("cleaned up", everybody...)
	receives = true
	t.Setenv("PATH", t.TempDir())
	look(New(m.Config))
}

// echoes answers packets to a port of the host.
func echoes(t *testing.T, port int) {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(hostEnd, fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buffer := make([]byte, 100); ; {
			n, from, err := conn.ReadFrom(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = conn.WriteTo(buffer[:n], from)
			}
		}
	}()
}

// asks sends one datagram after the other, each after the previous answer, until its input ends, and prints their
// number; one without an answer is the last.
const asks = `
import select, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(("` + nodeEnd + `", 0)); s.settimeout(20)
count = 0
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.0005)[0]:
    s.sendto(b"%d" % count, ("` + hostEnd + `", 4791))
    if s.recv(100) != b"%d" % count: sys.exit("another answer")
    count += 1
print(count)
`

func TestNothingOfNodesIsLostWhileOthersComeAndGo(t *testing.T) {
	makeMachines(t)
	echoes(t, 4791)
	m := New(Config{Switch: Switch{KernelReceives: func() (bool, bool) { return true, true }}, Barred: Barred{Closed: Closed{VXLANPort: 4791}}})
	look := func(vteps ...string) {
		t.Helper()
		if err := m.reconcileStrangers(t.Context(), agent.HostAccess{VTEPs: addresses(vteps...), AllVTEPs: true}); err != nil {
			t.Fatal(err)
		}
	}
	look(nodeEnd)
	node := exec.CommandContext(t.Context(), "ip", "netns", "exec", "far", testkit.Python, "-ISc", asks)
	in, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out, problem strings.Builder
	node.Stdout, node.Stderr = &out, &problem
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		look(nodeEnd, otherEnd)
		look(nodeEnd)
		m = New(m.Config) // the agent starts again, and does not know all nodes yet
		if err := m.reconcileStrangers(t.Context(), agent.HostAccess{VTEPs: addresses(otherEnd)}); err != nil {
			t.Fatal(err)
		}
		look(nodeEnd)
	}
	_ = in.Close()
	if err := node.Wait(); err != nil {
		t.Errorf("%v: %s", err, problem.String())
	}
	var count int
	if _, err := fmt.Sscanf(out.String(), "ready\n%d", &count); err != nil || count < 100 {
		t.Errorf("only %d datagrams were answered meanwhile: %q, %v", count, out.String(), err)
	}
}
