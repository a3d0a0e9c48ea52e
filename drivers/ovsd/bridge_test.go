package ovsd_test

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func TestBridgeAndTunnelHaveTheRowsOfTheDesign(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	for _, c := range []struct{ table, record, column, want string }{
		{"Bridge", bridge, "fail_mode", "secure"},
		{"Bridge", bridge, "datapath_type", "netdev"},
		{"Bridge", bridge, "protocols", "[OpenFlow10, OpenFlow11, OpenFlow12, OpenFlow13]"},
		{"Bridge", bridge, "controller", "[]"},
		{"Interface", bridge, "type", "internal"},
		{"Interface", "vxif0", "type", "vxlan"},
		{"Interface", "vxif0", "ofport", "1"},
		{"Interface", "vxif0", "options", `{df_default="false", dst_port="4789", key=flow, local_ip="192.0.2.1", remote_ip=flow, tos=inherit}`},
	} {
		if got := n.column(c.table, c.record, c.column); got != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.table, c.record, c.column, got, c.want)
		}
	}
	s := r.Status()
	if !s.Connected || !s.InSync || s.Bridge != bridge || s.Datapath != "netdev" || s.LastError != "" {
		t.Errorf("status: %+v", s)
	}
	if s.Flows == 0 || s.Flows != len(n.flows()) {
		t.Errorf("status says %d flows, the switch has %d", s.Flows, len(n.flows()))
	}
}

func TestABridgeThatWasChangedIsSetRight(t *testing.T) {
	n := newNode(t)
	n.AddBridge(bridge, "fail_mode=standalone", "external_ids:theirs=kept")
	r := n.start()
	r.give(drivers.Change{Replace: true})
	if got := n.column("Bridge", bridge, "external_ids"); got != `{theirs=kept}` {
		t.Errorf("external_ids: %s", got)
	}
	if got := n.column("Bridge", bridge, "fail_mode"); got != "secure" {
		t.Errorf("fail_mode: %s", got)
	}
	whole := func() bool {
		flows, err := n.Try("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", bridge)
		s := r.Status()
		return err == nil && s.InSync && strings.Count(flows, "cookie=") == s.Flows
	}
	// The switch drops its flows when its fail mode changes, when it gets its first controller, and when it loses its
	// last.
	for _, command := range []string{"set Bridge " + bridge + " fail_mode=standalone", "set-controller " + bridge + " punix:" + n.RunDir + "/x", "del-controller " + bridge} {
		n.Vsctl(strings.Fields(command)...)
		eventually(t, "the flows are back after "+command, whole)
	}
	n.Vsctl("set", "Bridge", bridge, "fail_mode=standalone", "--", "del-port", "vxif0")
	eventually(t, "fail mode and tunnel are back", func() bool {
		return n.column("Bridge", bridge, "fail_mode") == "secure" && strings.Contains(n.Vsctl("list-ports", bridge), "vxif0")
	})
	n.Vsctl("del-br", bridge)
	eventually(t, "the bridge is back with its flows", whole)
}

func TestOtherBridgesAreNotTouched(t *testing.T) {
	n := newNode(t)
	n.AddBridge("br-phy")
	n.Vsctl("add-port", "br-phy", "under1")
	n.Ofctl("add-flow", "br-phy", "priority=7,actions=NORMAL")
	before := n.Vsctl("--columns=name,fail_mode,protocols,ports,external_ids,other_config", "list", "Bridge", "br-phy")
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, remote(9, 0)}})
	r.add("web.blue-1")
	if after := n.Vsctl("--columns=name,fail_mode,protocols,ports,external_ids,other_config", "list", "Bridge", "br-phy"); after != before {
		t.Errorf("row of another bridge changed:\n%s\n%s", before, after)
	}
	if got := n.Ofctl("--no-stats", "dump-flows", "br-phy"); !strings.Contains(got, "priority=7 actions=NORMAL") {
		t.Errorf("flows of another bridge: %s", got)
	}
}

func TestAnImpossibleConfigurationIsRefused(t *testing.T) {
	if _, err := ovsd.New(ovsd.Config{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("without a tunnel address: %v", err)
	}
	n := newNode(t)
	n.config.Datapath = "dpdk"
	if _, err := ovsd.New(n.config); !fault.Is(err, fault.Invalid) {
		t.Errorf("datapath dpdk: %v", err)
	}
}

func TestATunnelThatCannotBeMadeIsReportedAndPodsWorkWithout(t *testing.T) {
	n := newNode(t)
	n.AddBridge("br-other")
	n.Vsctl("add-port", "br-other", "vx", "--", "set", "Interface", "vx", "type=vxlan",
		"options:key=flow", "options:remote_ip=flow", "options:local_ip=192.0.2.1")
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	a.reaches(b.endpoint.IPv4.String())
	if s := r.Status(); !strings.Contains(s.LastError, "vxif0") {
		t.Errorf("status %+v", s)
	}
}

// A name is that of one port of all bridges: somebody else's is left alone, and pods of the node work without ours.
func TestATunnelWhoseNameAnotherBridgeHasIsReportedAndPodsWorkWithout(t *testing.T) {
	n := newNode(t)
	taken := []string{"add-port", "br-other", "vxif0", "--", "set", "Interface", "vxif0", "type=internal"}
	n.AddBridge("br-other")
	n.Vsctl(taken...)
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(a, b))
	a.reaches(b.endpoint.IPv4.String())
	told := func() bool {
		s := r.Status()
		return strings.HasSuffix(s.LastError, "port vxif0 of bridge br-other has the name of ours: remove or rename it")
	}
	eventually(t, "it is told whose port it is", told)
	n.Vsctl("del-port", "br-other", "vxif0")
	back := func() bool {
		return r.Status().LastError == "" && strings.Contains(n.Vsctl("list-ports", bridge), "vxif0")
	}
	eventually(t, "the tunnel is there", back)

	r.stop()
	n.Vsctl("del-port", "vxif0") // one step for both ends ovs-vswitchd (3.1)
	n.Vsctl(taken...)
	r = n.start()
	r.give(everything(a, b))
	eventually(t, "it is told when the bridge is there, too", told)
	n.Vsctl("del-port", a.port.HostLink)
	eventually(t, "ports are set right meanwhile", func() bool { return len(r.Ports()) == 2 && a.pings(b.endpoint.IPv4.String()) })
	n.Vsctl("del-port", "br-other", "vxif0")
	eventually(t, "the tunnel is back", back)
}

func TestABridgeWhoseNameAPortHasIsMadeOnceThatIsGone(t *testing.T) {
	n := newNode(t)
	n.AddBridge("br-other")
	n.Vsctl("add-port", "br-other", bridge, "--", "set", "Interface", bridge, "type=internal")
	r := n.start()
	eventually(t, "it is told whose port it is", func() bool {
		return strings.HasSuffix(r.Status().LastError, "port "+bridge+" of bridge br-other has the name of ours: remove or rename it")
	})
	n.Vsctl("del-port", "br-other", bridge)
	r.give(drivers.Change{Replace: true})
	eventually(t, "the bridge is there", func() bool { s := r.Status(); return s.InSync && s.LastError == "" })
}
