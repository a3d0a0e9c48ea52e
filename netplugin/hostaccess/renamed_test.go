package hostaccess

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/test/testkit"
)

// The rules know the interface by its name: with another one, they judge nothing that endpoints send.
func TestAWayOutThatSomebodyRenamedHasItsNameAgain(t *testing.T) {
	port, _ := pair(t)
	t.Cleanup(func() { run(t, "nft flush ruleset; conntrack -F 2>/dev/null") })
	run(t, "ip link set vvport7 alias hostcontivh0") // as the switch's driver marks it
	manager := func() *Manager {
		return New(Config{Datapath: &onlyOutside{port: port}, Switch: Switch{Netdev: func() bool { return false }}, Barred: Barred{Closed: closed, RouterLink: "inb01"}, StateDir: t.TempDir()})
	}
	m := manager()
	round := func() string {
		t.Helper()
		if err := m.look(t.Context()); err != nil {
			t.Error(err)
		}
		return run(t, "ip address show dev contivh0; conntrack -L 2>/dev/null")
	}
	round()
	for _, rename := range []string{"ip link set contivh0 name other", "ip link set contivh0 down; ip link set contivh0 name other"} {
		run(t, rename+"; conntrack -I -p udp -s 172.19.0.6 --sport 5353 -t 60 -u UNSET -r 172.19.255.254 --reply-port-src 7 --reply-port-dst 5353 -q 172.19.0.6 -d 172.19.255.254 --dport 7")
		if got := round(); !strings.Contains(got, "inet 172.19.255.254/16") || !strings.Contains(got, "LOWER_UP") || strings.Contains(got, "src=172.19.0.6 ") {
			t.Errorf("%s: %s", rename, got)
		}
	}
	run(t, "ip link set contivh0 name other")
	m = manager() // netplugin is started again
	if got := round(); !strings.Contains(got, "inet 172.19.255.254/16") {
		t.Errorf("after a restart: %s", got)
	}
}

func TestAnInterfaceThatSomebodyRenamedHasItsNameAgain(t *testing.T) {
	testkit.NeedsMachine(t)
	port, _ := pair(t)
	want := Interface{Name: "inb01", MAC: net.HardwareAddr{2, 2, 203, 0, 113, 11}, Addresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.11/24")}}
	ensure := func(changes bool) {
		t.Helper()
		if changed, err := want.Ensure(port); changed != changes || err != nil {
			t.Errorf("changed %v, %v; want %v", changed, err, changes)
		}
	}
	ensure(true)
	ensure(false)
	run(t, "ip link set inb01 name other")
	ensure(true)
	ensure(false)
	if got := run(t, "ip address show dev inb01"); !strings.Contains(got, "inet 203.0.113.11/24") {
		t.Error(got)
	}
}
