package hostaccess

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/netspace"
)

// Endpoints are a namespace, $1, behind the egress interface, with the private addresses 172.19.0.7, 172.19.0.8
// and fd63:6f6e:7469:7601::7, and 172.19.0.9, which sends last; the world is another one, $2.
const shareTopology = `
ip link add contivh0 type veth peer name eth0 netns "$1"
ip link add world type veth peer name eth0 netns "$2"
ip addr add 172.19.255.254/16 dev contivh0; ip addr add fd63:6f6e:7469:7601::fffe/64 dev contivh0 nodad
ip addr add 203.0.113.1/24 dev world; ip addr add 2001:db8::1/64 dev world nodad
ip link set contivh0 up; ip link set world up
sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
nft add table inet seen
nft add chain inet seen in '{ type filter hook input priority 300; }'
nft add chain inet seen there '{ type filter hook forward priority 300; }'
nsenter --net="$1" sh -ec '
ip link set eth0 up; ip addr add 172.19.0.7/16 dev eth0; ip addr add 172.19.0.8/16 dev eth0; ip addr add 172.19.0.9/16 dev eth0; ip addr add 172.19.255.252/16 dev eth0
ip addr add fd63:6f6e:7469:7601::7/64 dev eth0 nodad
ip route add default via 172.19.255.254; ip route add default via fd63:6f6e:7469:7601::fffe'
nsenter --net="$2" sh -ec '
ip link set eth0 up; ip addr add 203.0.113.2/24 dev eth0; ip addr add 2001:db8::2/64 dev eth0 nodad'`

// An endpoint that has used up its share gets no more, and the others still get theirs, to the host and through
// it.
func TestAnEndpointHasItsShareOfConnections(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology)
	var r rules
	changing := closed
	apply := func() {
		if err := r.apply(t.Context(), tableFor(wayOut, changing, "inb01", 20)); err != nil {
			t.Fatal(err)
		}
	}
	apply()
	pods, err := netns.GetFromPath(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Close()
	send := func(from, to string, port int) error {
		d := net.Dialer{LocalAddr: &net.UDPAddr{IP: net.ParseIP(from)}}
		c, err := d.DialContext(t.Context(), "udp", net.JoinHostPort(to, strconv.Itoa(port)))
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("hello"))
		if err := errors.Join(err, c.Close()); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
			return err
		}
		return nil
	}
	// arrived returns how many of so many connections arrived, once a later one of another endpoint has.
	last := map[string]string{"in": "203.0.113.1", "there": "203.0.113.2"}
	arrived := func(chain, from, to string, connections, want int) (packets int) {
		t.Helper()
		add := "; nft add rule inet seen " + chain + " iifname contivh0 "
		run(t, "nft flush chain inet seen "+chain+add+"ip saddr 172.19.0.9 udp dport 4999 counter"+add+"udp dport 5000-5999 counter")
		err := netspace.In(&pods, func() error {
			for i := range connections {
				if err := send(from, to, 5000+i); err != nil {
					return err
				}
			}
			return send("172.19.0.9", last[chain], 4999)
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := testkit.Until(ctx, "they arrive", func() bool {
			counters, fences := strings.Split(run(t, "nft list chain inet seen "+chain), "packets "), 0
			if len(counters) != 3 {
				t.Fatal(counters)
			}
			for i, count := range []*int{&fences, &packets} {
				if _, err := fmt.Sscan(counters[1+i], count); err != nil {
					t.Fatal(err)
				}
			}
			return fences > 0 && packets >= want
		}); err != nil {
			t.Error(err)
		}
		return packets
	}
	for i, c := range []struct {
		chain, from, to   string
		connections, want int
	}{
		{"there", "172.19.0.7", "203.0.113.2", 15, 15},
		{"there", "172.19.0.7", "203.0.113.2", 50, 5},
		{"in", "172.19.0.7", "203.0.113.1", 50, 0},  // it has its share, wherever they lead
		{"in", "172.19.0.8", "203.0.113.1", 50, 20}, // others have theirs
		{"there", "fd63:6f6e:7469:7601::7", "2001:db8::2", 50, 20},
		{"in", "172.19.255.252", "203.0.113.1", 50, 50}, // many clients, whose provider is no endpoint
		{"there", "172.19.255.252", "203.0.113.2", 50, 50},
	} {
		if got := arrived(c.chain, c.from, c.to, c.connections, c.want); got != c.want {
			t.Errorf("of %d connections from %s to %s %d arrive, want %d:\n%s", c.connections, c.from, c.to, got, c.want, run(t, "nft list table inet contiv"))
		}
		before := run(t, "nft -a list table inet contiv | grep handle")
		apply() // the table is right, so it stays
		if after := run(t, "nft -a list table inet contiv | grep handle"); after != before {
			t.Errorf("the table was written anew:\n%s\n%s", before, after)
		}
		changing.Ports = append(slices.Clone(changing.Ports), uint16(1000+i))
		apply() // the change resets no share
	}
}

// A changed table equals one that is written from scratch, also in the order in which chains translate.
func TestAChangedTableIsAsOneWrittenAnew(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	at := mastercfg.HostPort{Protocol: "udp", Port: 53, To: 5353}
	in := entrances{agent.Entrances{Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.80")}, NodePorts: []agent.NodePort{{Protocol: openflow.ProtoTCP, Port: 30080}}}, wayOut, Everywhere()}
	bare := func() table { return tableFor(wayOut, closed, "inb01", 2000) }
	ports := hostPorts{[]HostPort{{at, 7, true, true, ""}}, wayOut}
	moved := hostPorts{[]HostPort{{at, 8, true, false, ""}}, wayOut}
	var changed rules
	see := func() (chains, all string) {
		all = run(t, "nft -s list table inet contiv; nft list map inet contiv host-ports 2>/dev/null || true; nft list set inet contiv node-ports 2>/dev/null || true")
		lines := strings.Split(all, "\n")
		slices.Sort(lines) // sets are listed in the order of their creation, which does not matter
		return run(t, "nft list table inet contiv | grep 'chain '"), strings.Join(lines, "\n")
	}
	for i, want := range []table{bare(), bare().withHostPorts(ports), bare().with(in).withHostPorts(ports), bare().with(in).withHostPorts(moved), bare().with(in),
		tableFor(wayOut, closed, "inb01", 3000), bare()} {
		if err := changed.apply(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		chains, all := see()
		var anew rules
		if err := anew.apply(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		if wantChains, wantAll := see(); chains != wantChains || all != wantAll {
			t.Errorf("table %d is\n%s\nwant\n%s", i, chains+all, wantChains+wantAll)
		}
		changed.listed, changed.at = anew.listed, anew.at // it is the same to it
	}
}
