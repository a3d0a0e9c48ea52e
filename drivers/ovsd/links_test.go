package ovsd_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/drivers"
)

func TestTheHostHasNoAddressOnTheLinkOfAPod(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	p := n.newPod(r, 1)
	n.Exec("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.all.disable_ipv6=0") // which is said to all links
	if got := n.Exec("ip", "-o", "address", "show", "dev", p.port.HostLink); got != "" {
		t.Errorf("the pod reaches the host at %s", got)
	}
	if got := p.exec("ip", "-o", "-6", "address", "show", "dev", "eth0"); !strings.Contains(got, "fe80::") {
		t.Errorf("the pod's own end: %s", got)
	}
}

// Of each change of a link that is up, ovs-vswitchd reads all links and routes anew:
// there must be none between its coming up and the pod's.
func TestALinkIsCompleteWhenItComesUp(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	updates := make(chan netlink.LinkUpdate, 100)
	done := make(chan struct{})
	defer close(done)
	if err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{Namespace: n.config.NetNS}); err != nil {
		t.Fatal(err)
	}
	p := n.newPod(r, 1)
	for seen := false; !seen; {
		select {
		case u := <-updates:
			a := u.Attrs()
			if a.Name != p.port.HostLink || a.Flags&net.FlagUp == 0 {
				continue
			}
			if a.Alias != p.endpoint.ID || a.Promisc == 0 {
				t.Errorf("it is up with alias %q and promiscuity %d", a.Alias, a.Promisc)
			}
			seen = a.OperState == netlink.OperUp
		case <-time.After(10 * time.Second):
			t.Fatal("it does not come up")
		}
	}
	if routes := n.Exec("ip", "-6", "route", "show", "table", "all", "dev", p.port.HostLink); routes != "" {
		t.Errorf("the host has routes through it: %s", routes)
	}
}
