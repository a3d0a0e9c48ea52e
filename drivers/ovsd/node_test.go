package ovsd_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/test/testkit"
)

const bridge = "contivVxlanBridge"

// node is a switch with an underlay address, and the configuration of the driver on it.
type node struct {
	*ovstest.Switch
	t      testing.TB
	config ovsd.Config
	chunk  int // flows in a bundle; 0: the default

	manyMasks int           // 0: the default
	slowTime  time.Duration // 0: the default
}

func newNode(t testing.TB) *node {
	t.Helper()
	n := &node{Switch: ovstest.Start(t), t: t}
	n.Exec("ip", "link", "add", "under0", "type", "veth", "peer", "name", "under1")
	n.Exec("ip", "address", "add", "192.0.2.1/24", "dev", "under0")
	n.Exec("ip", "link", "set", "under0", "mtu", "1600", "up")
	ns, err := netns.GetFromName(n.Netns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	n.config = ovsd.Config{
		RunDir:        n.RunDir,
		VTEP:          netip.MustParseAddr("192.0.2.1"),
		AuditInterval: time.Hour, // tests of the audit set another one
		NetNS:         &ns,
	}
	return n
}

// running is a driver that runs until stop.
type running struct {
	*ovsd.Driver
	t    testing.TB
	stop func()
}

func (n *node) start() *running {
	n.t.Helper()
	driver, err := ovsd.New(n.config)
	if err != nil {
		n.t.Fatal(err)
	}
	if n.chunk > 0 {
		driver.SetChunk(n.chunk)
	}
	if n.manyMasks > 0 {
		driver.SetManyMasks(n.manyMasks)
	}
	if n.slowTime > 0 {
		driver.SetSlowTime(n.slowTime)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- driver.Run(ctx) }()
	stopped := false
	r := &running{Driver: driver, t: n.t, stop: func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			n.t.Errorf("Run returned %v", err)
		}
	}}
	n.t.Cleanup(r.stop)
	return r
}

// give changes the wanted objects and waits until the switch has them.
func (r *running) give(c drivers.Change) {
	r.t.Helper()
	r.Update(c)
	r.sync()
}

func (r *running) sync() {
	r.t.Helper()
	if err := r.Sync(patience(r.t)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *running) add(id string) drivers.Port {
	r.t.Helper()
	port, err := r.AddPort(patience(r.t), pipeline.VXLAN, id, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return port
}

// pod is a namespace with an endpoint's interface.
type pod struct {
	t        testing.TB
	node     *node
	netns    string
	endpoint pipeline.Endpoint
	port     drivers.Port
}

// newPod adds a port, moves the pod's end into a namespace of its own and configures it as the CNI server does.
func (n *node) newPod(r *running, number byte) *pod {
	n.t.Helper()
	e := endpoint(number, 0)
	return n.podAt(e, r.add(e.ID), number)
}

// podAt configures the pod of a port.
func (n *node) podAt(e pipeline.Endpoint, port drivers.Port, number byte) *pod {
	n.t.Helper()
	p := &pod{t: n.t, node: n, netns: fmt.Sprintf("%s-%d", n.Netns, number), endpoint: e, port: port}
	run(n.t, "ip", "netns", "add", p.netns)
	n.t.Cleanup(func() { run(n.t, "ip", "netns", "del", p.netns) })
	n.Exec("ip", "link", "set", p.port.PodLink, "netns", p.netns)
	p.exec("ip", "link", "set", p.port.PodLink, "name", "eth0", "address", mac(p.endpoint.MAC))
	p.exec("ip", "address", "add", p.endpoint.IPv4.String()+"/24", "dev", "eth0")
	p.exec("ip", "link", "set", "eth0", "up")
	p.exec("ip", "link", "set", "lo", "up")
	p.exec("ethtool", "-K", "eth0", "tx", "off")
	n.AwaitLink(p.port.HostLink)
	return p
}

func (p *pod) exec(command ...string) string {
	p.t.Helper()
	return run(p.t, "ip", append([]string{"netns", "exec", p.netns}, command...)...)
}

func (p *pod) command(command ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", p.netns}, command...)...)
}

// network is the only network of these tests.
var network = pipeline.Network{
	ID: "web.blue", Tenant: "blue", VRF: 1, VNI: 5001, Tag: 1,
	Subnet: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("10.1.0.254"),
}

// endpoint returns the endpoint with this number; group is an attribute that its flows contain.
func endpoint(number byte, group uint16) pipeline.Endpoint {
	return pipeline.Endpoint{
		ID: fmt.Sprintf("web.blue-%d", number), Network: network.ID, Tenant: network.Tenant,
		VRF: network.VRF, VNI: network.VNI, Tag: network.Tag, Group: group,
		IPv4: netip.AddrFrom4([4]byte{10, 1, 0, number}), MAC: [6]byte{2, 2, 10, 1, 0, number}, Local: true,
	}
}

// remote is an endpoint on another node.
func remote(number byte, group uint16) pipeline.Endpoint {
	e := endpoint(number, group)
	e.Local, e.VTEP = false, netip.MustParseAddr("192.0.2.2")
	return e
}

func mac(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// flows returns the flows of the bridge, one a line, as the switch prints them.
func (n *node) flows() []string {
	n.t.Helper()
	var list []string
	for _, line := range strings.Split(n.Ofctl("--no-stats", "--no-names", "dump-flows", bridge), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// flowsWith returns the number of flows that contain a text.
func (n *node) flowsWith(text string) int {
	n.t.Helper()
	count := 0
	for _, line := range n.flows() {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

func (n *node) column(table, record, column string) string {
	n.t.Helper()
	return strings.TrimSpace(n.Vsctl("get", table, record, column))
}

// links returns the names of our links in the switch's namespace.
func (n *node) links() []string {
	n.t.Helper()
	var list []string
	for _, line := range strings.Split(n.Exec("ip", "-o", "link"), "\n") {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), "@")
		if strings.HasPrefix(name, "vport") || strings.HasPrefix(name, "vvport") {
			list = append(list, name)
		}
	}
	return list
}

func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func patience(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	testkit.Eventually(t, time.Minute, what, condition)
}
