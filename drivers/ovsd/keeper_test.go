package ovsd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func TestAPortThatSomebodyRemovedIsBackAtOnce(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	a.reaches(b.endpoint.IPv4.String())
	n.Vsctl("del-port", b.port.HostLink)
	// A port that returns has its number in the switch before its row says so: until then its old flows serve it.
	eventually(t, "the port is back with its flows", func() bool {
		ports := r.Ports()
		return len(ports) == 2 && ports[1] == b.port && r.Status().InSync && a.pings(b.endpoint.IPv4.String())
	})
}

func TestAPortThatSomebodyChangedIsSetRight(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	port := r.add("web.blue-1")
	for _, c := range []struct{ command, table, column, want string }{
		{"set Port %s tag=7", "Port", "tag", "[]"},
		{"set Port %s trunks=7,8 vlan_mode=trunk", "Port", "trunks", "[]"},
		{"clear Port %s external_ids", "Port", "external_ids", "{endpoint-id=web.blue-1}"},
		{"set Interface %s external_ids:endpoint-id=web.blue-9", "Interface", "external_ids", `{endpoint-id=web.blue-1, pod-mtu="1550"}`},
		{"clear Interface %s external_ids", "Interface", "external_ids", `{endpoint-id=web.blue-1, pod-mtu="1550"}`},
		{"set Interface %s type=tap", "Interface", "type", `""`},
		{"clear Interface %s mtu_request", "Interface", "mtu_request", "9000"},
	} {
		t.Run(c.command, func(t *testing.T) {
			n.Vsctl(append([]string{"--no-wait"}, strings.Fields(fmt.Sprintf(c.command, port.HostLink))...)...)
			eventually(t, c.column+" is right", func() bool { return n.column(c.table, port.HostLink, c.column) == c.want })
			eventually(t, "the port works", func() bool {
				ports := r.Ports()
				return len(ports) == 1 && ports[0] == port
			})
		})
	}
	n.Exec("ip", "link", "set", port.HostLink, "mtu", "1400")
	eventually(t, "the MTU is right", func() bool { return strings.Contains(n.Exec("ip", "link", "show", port.HostLink), "mtu 9000") })
	n.Vsctl("set", "Interface", port.HostLink, "external_ids:theirs=kept")
	n.Vsctl("set", "Port", port.HostLink, "tag=7")
	eventually(t, "the tag is gone", func() bool { return n.column("Port", port.HostLink, "tag") == "[]" })
	if got := n.column("Interface", port.HostLink, "external_ids"); got != `{endpoint-id=web.blue-1, pod-mtu="1550", theirs=kept}` {
		t.Errorf("external_ids: %s", got)
	}
}

// ovs-vswitchd writes a number once, and does not check whether that succeeds.
func TestAPortThatHasNoNumberInItsRowIsMadeAnew(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	a.reaches(b.endpoint.IPv4.String())
	n.Vsctl("--no-wait", "clear", "interface", b.port.HostLink, "ofport")
	eventually(t, "the port has a number, and its flows", func() bool {
		ports := r.Ports()
		return len(ports) == 2 && ports[1] == b.port && r.Status().InSync && a.pings(b.endpoint.IPv4.String())
	})
	if again := r.add("web.blue-2"); again != b.port {
		t.Errorf("port %+v, was %+v", again, b.port)
	}
}

func TestALinkThatSomebodyRemovedIsReportedUntilItsPortGoes(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	port := r.add("web.blue-1")
	n.Exec("ip", "link", "del", port.HostLink)
	eventually(t, "it is reported", func() bool {
		return strings.Contains(r.Status().LastError, port.HostLink) && strings.Contains(r.Status().LastError, "web.blue-1")
	})
	if _, err := r.FindPort(patience(t), "web.blue-1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("FindPort: %v", err)
	}
	if err := r.RemovePort(patience(t), "web.blue-1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all is well", func() bool { return r.Status().LastError == "" })
}

func TestALinkThatSomebodySetDownIsUpAgain(t *testing.T) {
	n := newNode(t)
	r := n.start()
	port := r.add("web.blue-1")
	for _, down := range [][]string{
		{"ip", "link", "set", port.HostLink, "down"},
		{"ovs-ofctl", "-O", "OpenFlow13", "mod-port", "contivVxlanBridge", port.HostLink, "down"},
	} {
		n.Exec(down[0], down[1:]...)
		eventually(t, "the link is up", func() bool { return strings.Contains(n.Exec("ip", "link", "show", port.HostLink), ",UP") })
	}
}

func TestFindPortMakesNothing(t *testing.T) {
	n := newNode(t)
	r := n.start()
	if _, err := r.FindPort(patience(t), "web.blue-1"); !fault.Is(err, fault.NotFound) {
		t.Errorf("error %v", err)
	}
	if got := n.links(); len(got) != 0 {
		t.Errorf("links: %v", got)
	}
	port := r.add("web.blue-1")
	if found, err := r.FindPort(patience(t), "web.blue-1"); err != nil || found != port {
		t.Errorf("found %+v, %v, want %+v", found, err, port)
	}
}

func TestALinkThatCannotBeKeptHoldsUpNobody(t *testing.T) {
	n := newNode(t)
	r := n.start()
	link := r.add("web.blue-1").HostLink
	r.stop()
	n.AddBridge("br-other")
	n.Vsctl("del-port", link, "--", "add-port", "br-other", link)
	r = n.start()
	r.add("web.blue-2")
	eventually(t, "it is told which, and why", func() bool {
		s := r.Status()
		return strings.Contains(s.LastError, link) && strings.Contains(s.LastError, "another bridge")
	})
	n.Vsctl("del-port", "br-other", link)
	eventually(t, "the port is back", func() bool { return len(r.Ports()) == 2 })
}

func TestASecondDriverWaitsUntilTheFirstEnds(t *testing.T) {
	n := newNode(t)
	first := n.start()
	first.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(9, 0)}})
	before := n.sortedFlows()

	second := n.start()
	second.Update(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	eventually(t, "the second says why it waits", func() bool {
		s := second.Status()
		return strings.Contains(s.LastError, "another agent") && !s.InSync
	})
	first.give(drivers.Change{Set: []pipeline.Object{remote(8, 0)}})
	first.give(drivers.Change{Remove: []pipeline.Key{remote(8, 0).Key()}})
	if after := n.sortedFlows(); after != before || !first.Status().InSync {
		t.Errorf("flows of the first:\n%s", after)
	}
	first.stop()
	second.sync()
	if n.flowsWith("02:02:0a:01:00:09") != 0 || !second.Status().InSync {
		t.Errorf("status %+v", second.Status())
	}
}

func TestABridgeKeepsItsDatapathUnlessToldOtherwise(t *testing.T) {
	n := newNode(t)
	n.config.Datapath = ovsd.DatapathAuto
	n.Vsctl("--no-wait", "add-br", bridge, "--", "set", "Bridge", bridge, "datapath_type=system")
	r := n.start()
	eventually(t, "the driver has looked", func() bool { return r.Status().Datapath != "" })
	if s := r.Status(); s.Datapath != ovsd.DatapathSystem || n.column("Bridge", bridge, "datapath_type") != ovsd.DatapathSystem {
		t.Errorf("datapath %s", s.Datapath)
	}
	r.stop()
	n.config.Datapath = ovsd.DatapathNetdev
	n.start().give(drivers.Change{Replace: true})
	if got := n.column("Bridge", bridge, "datapath_type"); got != ovsd.DatapathNetdev {
		t.Errorf("datapath %s", got)
	}
}

func TestTheDatapathIsChosenWhenTheSwitchRuns(t *testing.T) {
	n := newNode(t)
	n.KillVswitchd()
	n.Vsctl("--no-wait", "clear", "Open_vSwitch", ".", "datapath_types")
	r := n.start()
	eventually(t, "the driver waits", func() bool { return strings.Contains(r.Status().LastError, "ovs-vswitchd") })
	if got := n.Vsctl("--no-wait", "list-br"); strings.TrimSpace(got) != "" || r.Status().Datapath != "" {
		t.Errorf("bridges %q, status %+v", got, r.Status())
	}
	if got, err := r.Release(t.Context()); err == nil {
		t.Errorf("nothing runs, and is of version %q", got)
	}
	if got, err := r.Began(t.Context()); err == nil {
		t.Errorf("nothing runs, and has begun at %v", got)
	}
	before := time.Now().Add(-time.Second / 50) // the kernel counts hundredths of a second
	n.StartVswitchd()
	if got, err := r.Began(t.Context()); err != nil || got.Before(before) || got.After(time.Now()) {
		t.Errorf("it has begun at %v, %v; want from %v on", got, err, before)
	}
	r.give(drivers.Change{Replace: true})
	if got := r.Status().Datapath; got != ovsd.DatapathNetdev {
		t.Errorf("datapath %q", got)
	}
	// ovs-vswitchd (Open vSwitch) 3.1.0
	first, _, _ := strings.Cut(n.Exec("ovs-vswitchd", "--version"), "\n")
	if got, err := r.Release(t.Context()); err != nil || got == "" || !strings.HasSuffix(first, " "+got) {
		t.Errorf("%q is said to be of version %q, %v", first, got, err)
	}
}
