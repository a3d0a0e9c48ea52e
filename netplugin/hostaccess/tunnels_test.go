package hostaccess

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/netplugin/test/testkit"
)

func TestWhatTunnelsBringEndsAtTheLink(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, `set -e
ip netns add far; ip link add under0 type veth peer name up0 netns far; ip link set under0 up
for a in 192.0.2.1/24 192.0.2.7/24; do ip addr add $a dev under0; done; ip addr add 2001:db8::1/64 dev under0 nodad
ip -n far addr add 192.0.2.2/24 dev up0; ip -n far addr add 2001:db8::2/64 dev up0 nodad; ip -n far link set up0 up`)
	t.Cleanup(func() { run(t, "nft flush ruleset; ip link del under0; ip netns del far") }) // a namespace is gone some time later
	const port, other = 4789, 4790
	var links []string
	four := New(Config{Switch: Switch{TunnelLinks: func() ([]string, error) { return links, nil }, VTEP: netip.MustParseAddr("192.0.2.1")}, Barred: Barred{Closed: Closed{VXLANPort: port}}})
	six := New(Config{Switch: Switch{TunnelLinks: four.TunnelLinks, VTEP: netip.MustParseAddr("2001:db8::1")}, Barred: Barred{Closed: four.Closed}})
	look := func(m *Manager, why string) {
		t.Helper()
		if err := m.keepTunnels(t.Context()); err != nil {
			t.Fatalf("%s: %v", why, err)
		}
	}
	heard := map[string]func(want bool) bool{} // whether packets to an address reach the host, by the address
	for _, at := range []string{"192.0.2.1", "192.0.2.7", "2001:db8::1"} {
		tunnel, after := listen(t, at, port), listen(t, at, other)
		heard[at] = func(want bool) bool {
			run(t, fmt.Sprintf("ip netns exec far bash -ec 'echo x >/dev/udp/%[1]s/%[2]d; echo x >/dev/udp/%[1]s/%[3]d'", at, port, other))
			if !after(30 * time.Second) {
				t.Fatalf("nothing comes to %s", at)
			}
			if want {
				return tunnel(30 * time.Second)
			}
			return tunnel(50 * time.Millisecond) // a datagram sent before the other would have arrived
		}
	}
	expect := func(why string, want map[string]bool) {
		t.Helper()
		for at, hears := range heard {
			if got := hears(want[at]); got != want[at] {
				t.Errorf("%s: what a tunnel brings to %s comes to the host: %v", why, at, got)
			}
		}
	}
	all := map[string]bool{"192.0.2.1": true, "192.0.2.7": true, "2001:db8::1": true}

	look(four, "no links")
	expect("where the kernel forwards", all)
	links = []string{"under0"}
	for _, change := range []string{"", "nft delete table netdev contiv", "nft flush table netdev contiv"} {
		run(t, change)
		look(four, "a link, after "+change)
		expect("after "+change, map[string]bool{"192.0.2.7": true, "2001:db8::1": true})
	}
	look(six, "tunnels of IPv6")
	expect("tunnels of IPv6", map[string]bool{"192.0.2.1": true, "192.0.2.7": true})
	links = nil
	look(New(six.Config), "the links are none any more, and this process has not made what is there")
	expect("there are no links", all)
	if left := run(t, "nft list ruleset"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	links = []string{"under0"}
	t.Setenv("PATH", t.TempDir())
	look(New(four.Config), "without nft")
}

// listen returns a function that reports whether a datagram reaches an address of the host within a time.
func listen(t *testing.T, at string, port int) (comes func(time.Duration) bool) {
	t.Helper()
	conn, err := net.ListenPacket("udp", net.JoinHostPort(at, fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return func(within time.Duration) bool {
		_ = conn.SetReadDeadline(time.Now().Add(within))
		_, _, err := conn.ReadFrom(make([]byte, 10))
		return err == nil
	}
}
