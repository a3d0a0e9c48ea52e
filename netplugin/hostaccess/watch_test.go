package hostaccess

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/test/testkit"
)

func TestWhoChangesWhatIsOursIsNoticedAndNobodyElse(t *testing.T) {
	testkit.NeedsMachine(t)
	run(t, "ip link add contivh0 type bridge; sysctl -qw net.ipv6.conf.contivh0.disable_ipv6=1; ip link set contivh0 up; ip link add d0 type bridge; ip link set d0 up; ip addr add 192.0.2.1/24 dev contivh0; nft add table inet contiv; nft add chain inet contiv enter; sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=0")
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del d0; nft flush ruleset") })
	link, err := netlink.LinkByName("contivh0")
	if err != nil {
		t.Fatal(err)
	}
	var o own
	o.add(link.Attrs().Index)
	noticed := make(chan struct{}, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.watch(ctx, logrus.NewEntry(logrus.New()), func() { noticed <- struct{}{} }) }()
	await := func(what string) {
		t.Helper()
		select {
		case <-noticed:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: nobody notices", what)
		}
	}
	await("it listens to the kernel")
	await("and to nftables")
	// The kernel reports changes of a link late when it comes up: a single notification may be that, and not theirs.
	settled, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if err := testkit.Poll(settled, func() error {
		for len(noticed) > 0 {
			<-noticed
		}
		for _, theirs := range []string{"ip addr add 198.51.100.1/24 dev d0", "ip route add 203.0.113.0/24 dev d0", "ip link set d0 down", "ip link add d1 type bridge", "ip link del d1",
			"nft add table ip contiv", "nft add table inet theirs; nft add chain inet theirs enter", "nft add rule inet theirs enter accept", "sysctl -qw net.ipv4.conf.d0.forwarding=0"} {
			run(t, theirs)
		}
		defer run(t, "sysctl -qw net.ipv4.conf.d0.forwarding=1; ip addr del 198.51.100.1/24 dev d0; ip link set d0 up; nft delete table ip contiv; nft delete table inet theirs")
		select {
		case <-noticed:
			return errors.New("what others have is taken for ours")
		case <-time.After(100 * time.Millisecond):
			return nil
		}
	}); err != nil {
		t.Error(err)
	}
	for _, ours := range []string{"sysctl -qw net.ipv4.conf.contivh0.forwarding=0", "ip link set contivh0 down", "ip link set contivh0 up", "ip addr del 192.0.2.1/24 dev contivh0", "ip route add 203.0.113.9 dev contivh0 proto 168", "ip route del 203.0.113.9 dev contivh0 proto 168",
		"nft add rule inet contiv enter accept", "nft flush table inet contiv", "nft delete table inet contiv", "nft add table netdev contiv", "nft delete table netdev contiv", "sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv6.conf.all.forwarding=1", "ip link set contivh0 name other"} {
		for len(noticed) > 0 {
			<-noticed
		}
		run(t, ours)
		await(ours)
	}
	run(t, "ip link set other name contivh0")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
