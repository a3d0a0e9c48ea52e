package ovsd_test

import (
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

func TestTheHostHasNoAddressOnTheLinkOfAPod(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	p := n.newPod(r, 1)
	n.Exec("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.all.disable_ipv6=0") // applies to all links
	if got := n.Exec("ip", "-o", "address", "show", "dev", p.port.HostLink); got != "" {
		t.Errorf("the pod reaches the host at %s", got)
	}
	if got := p.exec("ip", "-o", "-6", "address", "show", "dev", "eth0"); !strings.Contains(got, "fe80::") {
		t.Errorf("the pod's own end: %s", got)
	}
}

// On each change of a link that is up, ovs-vswitchd reads all links and routes again: there must be no change
// between the link's and the pod's coming up.
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

func TestAPortIsUsedWhileAPodHasTheOtherEndOfItsLink(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	expect := func(why, id string, want bool) {
		t.Helper()
		if used, err := r.PortUsed(id); used != want || err != nil {
			t.Errorf("%s: used %v, %v", why, used, err)
		}
	}
	expect("nobody's", "web.blue-1", false)
	r.add("web.blue-1")
	expect("both ends in the switch's namespace", "web.blue-1", false)
	p := n.newPod(r, 2)
	expect("a pod's", p.endpoint.ID, true)
	p.exec("ip", "link", "del", "eth0")
	expect("its link is gone", p.endpoint.ID, false)

	// When a pod's namespace ends, the kernel removes the link some time later.
	pod := exec.Command("unshare", "--net", "sleep", "60")
	if err := pod.Start(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { _ = pod.Process.Kill(); _ = pod.Wait() })
	t.Cleanup(end)
	var ns netns.NsHandle
	eventually(t, "it has a namespace of its own", func() bool {
		var err error
		if ns, err = netns.GetFromPid(pod.Process.Pid); err != nil {
			t.Fatal(err)
		}
		ours, err := netns.Get()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		if ns.Equal(ours) {
			_ = ns.Close()
			return false
		}
		return true
	})
	_, err := r.AddPort(patience(t), pipeline.VXLAN, "web.blue-3", int(ns))
	_ = ns.Close()
	if err != nil {
		t.Fatal(err)
	}
	expect("a pod's", "web.blue-3", true)
	end()
	eventually(t, "it is nobody's", func() bool { used, err := r.PortUsed("web.blue-3"); return !used && err == nil })
}

// With the userspace datapath, the kernel, too, receives what a pod sends: it must not accept any of it, whatever
// the pod knows of the link.
func TestTheHostTakesNothingFromTheLinkOfAPod(t *testing.T) {
	const own = "198.51.100.9"
	n := newNode(t)
	n.Exec("ip", "address", "add", own+"/32", "dev", "lo")
	r := n.start()
	r.give(drivers.Change{Replace: true})
	p := n.newPod(r, 1)
	counted := func(name string) int {
		fields := strings.Fields(n.Exec("nstat", "-asz", name))
		count, err := strconv.Atoi(fields[slices.Index(fields, name)+1])
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	p.exec("ip", "route", "replace", own, "dev", "eth0")
	p.exec("ip", "neighbour", "replace", own, "lladdr", strings.TrimSpace(n.Exec("cat", "/sys/class/net/"+p.port.HostLink+"/address")), "dev", "eth0")
	sends := func() {
		t.Helper()
		taken, refused := counted("UdpNoPorts"), counted("TcpExtIPReversePathFilter")
		p.exec("bash", "-c", "echo hello > /dev/udp/"+own+"/7777")
		testkit.Eventually(t, time.Minute, "the host sees it", func() bool { return counted("UdpNoPorts")+counted("TcpExtIPReversePathFilter") > taken+refused })
		if counted("UdpNoPorts") > taken {
			t.Error("the host takes what the pod sends to its address")
		}
	}
	sends()
	setting := "net.ipv4.conf." + p.port.HostLink + "."
	if got := n.Exec("sysctl", "-n", setting+"arp_ignore"); strings.TrimSpace(got) != "8" {
		t.Errorf("the host answers for its addresses: %s", got)
	}
	n.Exec("sysctl", "-qw", setting+"rp_filter=0", setting+"arp_ignore=0") // as set by an earlier version
	r.stop()
	n.start().give(drivers.Change{Replace: true})
	testkit.Eventually(t, time.Minute, "it is set right", func() bool {
		return n.Exec("sysctl", "-n", setting+"rp_filter", setting+"arp_ignore") == "1\n8\n"
	})
	sends()
}
