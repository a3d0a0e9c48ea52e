package k8splugin_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/cniwire"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
)

func TestCheckNamesWhatIsMissing(t *testing.T) {
	inPod := func(command ...string) func(*testing.T, *fakenode.Node, string) {
		return func(t *testing.T, _ *fakenode.Node, netns string) { fakenode.InNamespace(t, netns, command...) }
	}
	onHost := func(command ...string) func(*testing.T, *fakenode.Node, string) {
		return func(t *testing.T, _ *fakenode.Node, _ string) {
			fakenode.InNamespace(t, "/proc/self/ns/net", command...)
		}
	}
	for name, c := range map[string]struct {
		damage func(t *testing.T, node *fakenode.Node, netns string)
		want   string
	}{
		"interface":        {inPod("ip", "link", "del", "eth0"), "interface eth0 is missing"},
		"interface down":   {inPod("ip", "link", "set", "eth0", "down"), "interface eth0 is down"},
		"hardware address": {inPod("ip", "link", "set", "eth0", "address", "02:00:00:00:00:01"), "hardware address is 02:00:00:00:00:01, not 02:02:0a:01:00:02"},
		"mtu":              {inPod("ip", "link", "set", "eth0", "mtu", "1500"), "MTU is 1500, more than 1450"},
		"address":          {inPod("ip", "addr", "del", "10.1.0.2/16", "dev", "eth0"), "address 10.1.0.2/16 is missing"},
		"address 6":        {inPod("ip", "addr", "del", "fd01::2/64", "dev", "eth0"), "address fd01::2/64 is missing"},
		"route":            {inPod("ip", "route", "del", "default"), "default route via 10.1.0.1 is missing"},
		"route 6":          {inPod("ip", "-6", "route", "del", "default"), "default route via fd01::1 is missing"},
		"another's eth0": {inPod("sh", "-c", "ip link set eth0 down; ip link set eth0 name x; ip link add eth0 type bridge"),
			"eth0 in"},
		"host link down": {onHost("ip", "link", "set", "vvport1", "down"), "vvport1 on the host is down"},
		"switch port":    {onHost("ip", "link", "set", "vvport1", "alias", "somebody"), "switch port of endpoint default-net.default-pod is missing"},
		"flows": {func(_ *testing.T, node *fakenode.Node, _ string) {
			node.Switch.Fail(fakenode.Attach, errors.New("flow 17 is missing"))
		}, "flow 17 is missing"},
		"reservation": {func(t *testing.T, node *fakenode.Node, _ string) {
			err := node.Cluster.Place(mastercfg.CfgEndpointState{ID: "default-net.default-pod", NetID: "default-net.default", IPAddress: "10.1.0.9", IPv6Address: "fd01::2"})
			if err != nil {
				t.Fatal(err)
			}
		}, "address 10.1.0.2 is no longer reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			node := fakenode.NewNode(t)
			node.Start(t)
			netns := fakenode.NewNamespace(t)
			do(t, node, request(cniwire.Add, "pod", netns, ""))
			t.Cleanup(func() { do(t, node, request(cniwire.Del, "pod", netns, "")) })
			// What a chained plugin may add or change.
			fakenode.InNamespace(t, netns, "ip", "addr", "add", "192.0.2.1/32", "dev", "eth0")
			fakenode.InNamespace(t, netns, "ip", "link", "set", "eth0", "mtu", "1400")
			do(t, node, request(cniwire.Check, "pod", netns, ""))
			c.damage(t, node, netns)
			e := refused(t, node, request(cniwire.Check, "pod", netns, ""), 103)
			if !strings.Contains(e.Msg, c.want) {
				t.Errorf("CHECK says %q, want %q in it", e.Msg, c.want)
			}
		})
	}
}

// The runtime passes the result of ADD, to which plugins behind us may have added, with CHECK.
func TestCheckComparesWhatTheRuntimeWasTold(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	told := string(do(t, node, request(cniwire.Add, "pod", netns, "")))
	t.Cleanup(func() { do(t, node, request(cniwire.Del, "pod", netns, "")) })
	check := func(result string) cniwire.Request {
		r := request(cniwire.Check, "pod", netns, "")
		r.Stdin = []byte(strings.TrimSuffix(conf, "}") + `, "prevResult": ` + result + "}")
		return r
	}
	do(t, node, check(told))
	do(t, node, check("null"))
	do(t, node, check(strings.Replace(told, `"ips": [`, `"ips": [{"address": "192.0.2.1/32"}, `, 1)))
	for told, want := range map[string]string{
		strings.Replace(told, "10.1.0.2/16", "10.1.0.9/16", 1): "prevResult does not have address 10.1.0.2/16",
		strings.Replace(told, "10.1.0.2/16", "10.1.0.2/24", 1): "prevResult does not have address 10.1.0.2/16",
		`{"cniVersion": "1.1.0"}`:                              "prevResult does not have address 10.1.0.2/16\nprevResult does not have address fd01::2/64",
	} {
		if e := refused(t, node, check(told), 103); !strings.Contains(e.Msg, want) {
			t.Errorf("%s: CHECK says %q, want %q in it", told, e.Msg, want)
		}
	}
	refused(t, node, check("7"), 6)
}

func TestCheckOfAnUnknownAttachmentFails(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	netns := fakenode.NewNamespace(t)
	refused(t, node, request(cniwire.Check, "pod", netns, ""), 3)
}

// lost is an error of a datapath that takes the attached containers with it.
type lost struct{}

func (lost) Error() string      { return "switch does not answer" }
func (lost) PodsAffected() bool { return true }

func TestStatusTellsWhetherContainersCanBeAttached(t *testing.T) {
	node := fakenode.NewNode(t)
	node.Start(t)
	status := cniwire.Request{Command: cniwire.Status, Stdin: []byte(conf)}
	do(t, node, status)
	node.Switch.Fail(fakenode.Ready, errors.New("first sync is pending"))
	refused(t, node, status, 50)
	node.Switch.Fail(fakenode.Ready, lost{})
	refused(t, node, status, 51)
}
