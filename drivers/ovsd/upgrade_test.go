package ovsd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// layout1 returns the path of a file with the flows that an earlier version wrote for the objects of this test:
// tables 0 to 14, with the number of its run, 41, in the cookies. There, the pods have ports 2 and 3.
func layout1(t *testing.T, a, b *pod) (path string) {
	t.Helper()
	flows, err := os.ReadFile("testdata/layout-1.flows")
	if err != nil {
		t.Fatal(err)
	}
	ports := strings.NewReplacer("in_port=2", fmt.Sprint("in_port=", a.port.OFPort), "output:2", fmt.Sprint("output:", a.port.OFPort),
		"in_port=3", fmt.Sprint("in_port=", b.port.OFPort), "output:3", fmt.Sprint("output:", b.port.OFPort))
	path = filepath.Join(t.TempDir(), "layout-1.flows")
	if err := os.WriteFile(path, []byte(ports.Replace(string(flows))), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A new version of the driver finds the flows of an earlier version, with tables and cookies of their own, and
// replaces them under traffic.
func TestAnUpgradeFromTheFirstLayoutLosesNoPacket(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	a.endpoint.Group, b.endpoint.Group = 5, 5
	all := drivers.Change{Replace: true, Set: []pipeline.Object{network, a.endpoint, b.endpoint, remote(9, 5),
		pipeline.Rule{ID: "r1", Priority: 3, SrcGroup: 5, DstGroup: 5, Protocol: 6, DstPort: 80}}}
	old := layout1(t, a, b)
	// It returns false if the pings were over before the upgrade was.
	upgrade := func(chunk, packets int) bool {
		r.stop()
		n.chunk = chunk
		n.Ofctl("del-meters", bridge)
		n.Ofctl("del-flows", bridge)
		n.Ofctl("add-flows", bridge, old)
		if n.flowsWith("cookie=0xc00029") != len(n.flows()) || len(n.flows()) < 50 {
			t.Fatalf("not the old layout:\n%s", strings.Join(n.flows(), "\n"))
		}
		// The datapath's drop flows expire a moment later.
		eventually(t, "packets pass by the old layout", func() bool {
			return a.command("ping", "-c", "1", "-W", "1", b.endpoint.IPv4.String()).Run() == nil
		})
		done, summary := probe(t, a, b, packets)
		r = n.start()
		r.give(all)
		if left := n.flowsWith("cookie=0xc00029"); left != 0 || !r.Status().InSync || len(n.flows()) != r.Status().Flows {
			t.Errorf("%d flows of the old layout are left, status %+v", left, r.Status())
		}
		covered := true
		select {
		case <-done:
			covered = false
		default:
		}
		<-done
		if want := fmt.Sprintf("%d packets transmitted, %d received", packets, packets); !strings.Contains(summary.String(), want) {
			t.Errorf("%d flows a bundle: %s", chunk, summary)
		}
		return covered
	}
	for _, chunk := range []int{0, 1, 3, 20} { // in one bundle, and in many
		for packets := 1000; !upgrade(chunk, packets); packets *= 2 {
			t.Logf("%d flows a bundle: %d packets are sent sooner than the upgrade is done", chunk, packets)
		}
	}
}

// The earlier version processed packets from tunnels in table SOURCE, without the node that they come from. Its
// flows are deleted once those of table PEER exist, and send no packets to missing flows before.
func TestAnUpgradeLosesNothingOutOfATunnel(t *testing.T) {
	n := newNode(t)
	r := n.start()
	a := n.newPod(r, 1)
	objects := []pipeline.Object{network, a.endpoint}
	for number := range byte(50) {
		objects = append(objects, remote(100+number, 5))
	}
	last := objects[len(objects)-1].(pipeline.Endpoint)
	arrival := fmt.Sprintf("udp,in_port=%s,tun_id=%d,tun_src=%s,tun_dst=192.0.2.1,dl_src=%s,dl_dst=%s,nw_src=%s,nw_dst=%s,nw_ttl=64",
		n.column("interface", "vxif0", "ofport"), network.VNI, last.VTEP, mac(last.MAC), mac(a.endpoint.MAC), last.IPv4, a.endpoint.IPv4)
	delivered := func() bool {
		return !strings.Contains(n.Appctl("ofproto/trace", bridge, arrival), "Datapath actions: drop")
	}
	for _, chunk := range []int{0, 1, 7} { // in one bundle, and in many
		r.give(drivers.Change{Replace: true, Set: objects})
		r.stop()
		before := []string{"delete table=43"}
		for _, flow := range n.flows() {
			if strings.Contains(flow, "table=43") && strings.Contains(flow, "resubmit(,24)") {
				flow = strings.Replace(strings.Replace(flow, "table=43", "table=23", 1), "tun_src="+last.VTEP.String()+",", "", 1)
				before = append(before, "add "+flow)
			} else if strings.Contains(flow, "goto_table:43") {
				before = append(before, "add "+strings.Replace(flow, "goto_table:43", "goto_table:23", 1))
			}
		}
		file := filepath.Join(t.TempDir(), "flows")
		if err := os.WriteFile(file, []byte(strings.Join(before, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Ofctl("--bundle", "add-flows", bridge, file)
		if len(before) < 50 || !delivered() {
			t.Fatalf("not the layout before:\n%s", strings.Join(before, "\n"))
		}
		n.chunk = chunk
		r = n.start()
		r.Update(drivers.Change{Replace: true, Set: objects})
		asked := 0
		for ctx := patience(t); !r.Status().InSync && ctx.Err() == nil; asked++ {
			if !delivered() {
				t.Fatalf("%d flows a bundle: lost after %d packets", chunk, asked)
			}
		}
		r.sync()
		if asked == 0 || !delivered() || n.flowsWith("table=43") < 50 {
			t.Errorf("%d flows a bundle: %d packets, of %d flows", chunk, asked, len(n.flows()))
		}
		t.Logf("%d flows a bundle: %d packets arrive", chunk, asked)
	}
}

// The first version gave both ends of a link the endpoint's MTU and did not record it. On any change of a link
// ovs-vswitchd reads its routes again, and sends nothing into tunnels meanwhile.
func TestAnUpgradeChangesNoLink(t *testing.T) {
	n := newNode(t)
	r := n.start()
	ports := []drivers.Port{r.add("web.blue-1"), r.add("web.blue-2")}
	r.stop()
	for _, p := range ports {
		n.Vsctl("clear", "Interface", p.HostLink, "mtu_request", "--", "remove", "Interface", p.HostLink, "external_ids", "pod-mtu")
		n.Exec("ip", "link", "set", p.HostLink, "mtu", "1550")
	}
	for _, p := range ports {
		eventually(t, "ovs-vswitchd has seen "+p.HostLink, func() bool { return n.column("Interface", p.HostLink, "mtu") == "1550" })
	}
	changes := n.watchLinks()
	r = n.start()
	for _, p := range ports {
		eventually(t, "the row of "+p.HostLink+" is right", func() bool {
			return strings.Contains(n.column("Interface", p.HostLink, "external_ids"), `pod-mtu="1550"`)
		})
	}
	n.Vsctl("set", "Open_vSwitch", ".", "external_ids:seen=all") // and waits for ovs-vswitchd
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network}})
	if got := r.Ports(); len(got) != 2 || got[0] != ports[0] || got[1] != ports[1] {
		t.Errorf("ports %+v, were %+v", got, ports)
	}
	if got := changes(); len(got) > 0 {
		t.Errorf("links that were changed: %v", got)
	}
}

// watchLinks collects the changes of the node's links, each with its name, until changes is called, which waits
// for all of them.
func (n *node) watchLinks() (changes func() []string) {
	n.t.Helper()
	const marker = "under0" // a link that is down has no changes
	updates, done := make(chan netlink.LinkUpdate, 100), make(chan struct{})
	n.t.Cleanup(func() { close(done) })
	if err := netlink.LinkSubscribeWithOptions(updates, done, netlink.LinkSubscribeOptions{Namespace: n.config.NetNS}); err != nil {
		n.t.Fatal(err)
	}
	return func() (names []string) {
		n.t.Helper()
		n.Exec("ip", "link", "set", marker, "alias", "the last change")
		for ctx := patience(n.t); ; {
			select {
			case update := <-updates:
				if update.Attrs().Name == marker {
					return names
				}
				names = append(names, update.Attrs().Name)
			case <-ctx.Done():
				n.t.Fatal("the last change of a link is not seen")
			}
		}
	}
}
