package hostaccess

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/netspace"
)

// A pod that sends a packet to another node from the port of tunnels would get, as answers, the packets of that
// node into tunnels of this host from the other port: packets of other tenants. The same holds for other ports of
// the host, and for protocols without ports.
func TestNoEndpointTakesTheHostsPortsByWhatItSends(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology+`
nft add chain inet seen early '{ type filter hook prerouting priority 0; }'
nft add rule inet seen early iifname world meta l4proto 50 counter
nft add rule inet seen there oifname contivh0 meta l4proto 50 counter`)
	guarded := Closed{VXLANPort: 4789, Ports: []uint16{9999}, Nodes: []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("203.0.113.2")}}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, guarded, "inb01", 2000)); err != nil {
		t.Fatal(err)
	}
	// Other software masquerades, too, with the port of the sender: of chains of one priority, the one that was made
	// last comes first.
	run(t, `nft add table inet others; nft add chain inet others post '{ type nat hook postrouting priority srcnat; }'; nft add rule inet others post oifname world masquerade`)
	pod, err := netns.GetFromPath(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer pod.Close()
	other, err := netns.GetFromPath(world)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	at := func(ns *netns.NsHandle, address string, port int) (c *net.UDPConn) {
		t.Helper()
		err := netspace.In(ns, func() (err error) {
			c, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.ParseIP(address), Port: port})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	gets := func(c *net.UDPConn) netip.AddrPort {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, from, err := c.ReadFromUDPAddrPort(make([]byte, 16))
		if err != nil {
			t.Errorf("%s gets nothing: %v", c.LocalAddr(), err)
		}
		return netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	}
	send := func(c *net.UDPConn, to netip.AddrPort) {
		t.Helper()
		if _, err := c.WriteToUDPAddrPort([]byte("hello"), to); err != nil {
			t.Fatal(err)
		}
	}
	for _, v := range []struct{ pod, host, peer string }{
		{"172.19.0.7", "203.0.113.1", "203.0.113.2"},
		{"fd63:6f6e:7469:7601::7", "2001:db8::1", "2001:db8::2"},
	} {
		for i, port := range []int{4789, 30080, 51820} {
			sends, takes, answers := at(&pod, v.pod, port), at(nil, v.host, port), at(&other, v.peer, 45000+i)
			send(sends, answers.LocalAddr().(*net.UDPAddr).AddrPort())
			from := gets(answers) // the tracker knows it now
			send(answers, from)
			gets(sends) // and what answers it arrives
			send(answers, takes.LocalAddr().(*net.UDPAddr).AddrPort())
			if got := gets(takes); got.Port() != uint16(45000+i) {
				t.Errorf("port %s of the host gets something of %s", strconv.Itoa(port), got)
			}
		}
	}

	raw := func(ns netns.NsHandle, to string) { // a packet of ESP
		t.Helper()
		err := netspace.In(&ns, func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ESP)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Sendto(fd, make([]byte, 32), 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(to).As4()})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	raw(pod, "203.0.113.2")
	raw(other, "203.0.113.1")
	testkit.Eventually(t, time.Minute, "the other machine's packet arrives", func() bool {
		return strings.Contains(run(t, "nft list chain inet seen early"), "packets 1 ")
	})
	if got := run(t, "nft list chain inet seen there"); !strings.Contains(got, "packets 0 ") {
		t.Errorf("what another machine of the cluster sends the host by a tunnel goes to an endpoint:\n%s", got)
	}
}
