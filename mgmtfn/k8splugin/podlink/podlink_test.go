package podlink_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/mgmtfn/k8splugin/podlink"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/utils/fault"
)

func TestMain(m *testing.M) { os.Exit(fakenode.Isolate(m)) }

func host(t *testing.T, command ...string) {
	t.Helper()
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
}

// connect makes a veth pair with one end in a new namespace.
func connect(t *testing.T, name string) (*podlink.Namespace, string) {
	t.Helper()
	path := fakenode.NewNamespace(t)
	n, err := podlink.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	host(t, "ip", "link", "add", "v"+name, "type", "veth", "peer", "name", name, "netns", path)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "v"+name).Run() }) // the kernel takes it away with its peer, by and by
	host(t, "ip", "link", "set", "v"+name, "up")
	return n, path
}

// configure takes a link, sets it up and brings it up.
func configure(n *podlink.Namespace, link string, spec podlink.Spec) (routes []netip.Addr, err error) {
	i, err := n.Take(link, spec)
	if err != nil {
		return nil, err
	}
	defer i.Close()
	if err := i.SetUp(spec); err != nil {
		return nil, err
	}
	gateways, onLink, err := i.BringUp(spec)
	return append(gateways, onLink...), err
}

func TestAnInterfaceThatIsSetUpIsDown(t *testing.T) {
	n, path := connect(t, "p0")
	spec := podlink.Spec{Name: "eth0", MAC: "02:02:0a:00:00:02", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24")}}
	i, err := n.Take("p0", spec)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Close()
	if err := i.SetUp(spec); err != nil {
		t.Fatal(err)
	}
	if got := fakenode.InNamespace(t, path, "ip", "address", "show", "eth0"); !strings.Contains(got, "10.0.0.2/24") || !strings.Contains(got, "state DOWN") {
		t.Errorf("set up:\n%s", got)
	}
	if got := fakenode.InNamespace(t, path, "sh", "-c", "cd /proc/sys/net/ipv6/conf/eth0; cat accept_ra autoconf accept_redirects"); got != "0\n0\n0\n" {
		t.Errorf("it listens to routers as soon as it is up: accept_ra, autoconf and accept_redirects are %q", got)
	}
}

func TestTheSwitchSideIsUpWhenItCarriesPackets(t *testing.T) {
	n, _ := connect(t, "p5")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := podlink.AwaitUp(ctx, "vp5"); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "vp5") {
		t.Errorf("the other end is down: %v", err)
	}
	if _, err := configure(n, "p5", podlink.Spec{Name: "eth0", MAC: "02:02:0a:00:00:05"}); err != nil {
		t.Fatal(err)
	}
	if err := podlink.AwaitUp(t.Context(), "vp5"); err != nil {
		t.Error(err)
	}
	if err := podlink.AwaitUp(t.Context(), "nolink"); err == nil || !strings.Contains(err.Error(), "nolink") {
		t.Errorf("a link that is not there: %v", err)
	}
}

func TestALinkOfAnotherEndpointIsNotThere(t *testing.T) {
	n, _ := connect(t, "p6")
	if _, err := configure(n, "p6", podlink.Spec{Name: "eth0", MAC: "02:02:0a:00:00:06"}); err != nil {
		t.Fatal(err)
	}
	if err := podlink.AwaitUp(t.Context(), "vp6"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		name, alias string
		there       bool
	}{{"vp6", "", true}, {"vp6", "net.tenant-pod", true}, {"vp6", "net.tenant-other", false}, {"nolink", "", false}} {
		if want.alias != "" {
			host(t, "ip", "link", "set", want.name, "alias", want.alias)
		}
		there, err := podlink.Exists(want.name, "net.tenant-pod")
		used, unknown := podlink.InUse(want.name, "net.tenant-pod")
		if there != want.there || used != want.there || err != nil || unknown != nil {
			t.Errorf("%+v: there %v (%v), used %v (%v)", want, there, err, used, unknown)
		}
	}
}

func TestTheInterfaceIsAsSpecified(t *testing.T) {
	n, path := connect(t, "p1")
	spec := podlink.Spec{
		Name: "eth0", MAC: "02:02:0a:00:00:02", MTU: 1400,
		Addresses:          []netip.Prefix{netip.MustParsePrefix("10.0.0.2/24"), netip.MustParsePrefix("fd00::2/64")},
		Gateways:           []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd99::1")}, // off the subnets
		OnLink:             []netip.Addr{netip.MustParseAddr("169.254.0.1"), netip.MustParseAddr("fd63::1")},
		ChecksumInSoftware: true,
	}
	routes, err := configure(n, "p1", spec)
	if err != nil {
		t.Fatal(err)
	}
	if len(routes) != 4 {
		t.Errorf("routes %v", routes)
	}
	if err := n.Check(spec); err != nil {
		t.Errorf("Check finds: %v", err)
	}
	for _, look := range []struct {
		command string
		want    string
	}{
		{"ip link show eth0", "mtu 1400"},
		{"ip link show eth0", "link/ether 02:02:0a:00:00:02"},
		{"ip -4 addr show eth0", "inet 10.0.0.2/24 brd"},
		{"ip -6 addr show eth0", "inet6 fd00::2/64 scope global nodad"},
		{"ip -4 route", "default via 192.0.2.1 dev eth0 onlink"},
		{"ip -6 route", "default via fd99::1 dev eth0"},
		{"ip -4 route", "169.254.0.1 dev eth0 scope link"},
		{"ip -6 route", "fd63::1 dev eth0"},
		{"ethtool -k eth0", "tx-checksum-ip-generic: off"},
		{"ethtool -k eth0", "tx-checksum-sctp: off"},
		{"ethtool -k eth0", "tx-tcp-segmentation: off"},
	} {
		if got := fakenode.InNamespace(t, path, strings.Fields(look.command)...); !strings.Contains(got, look.want) {
			t.Errorf("%s: %q is missing in\n%s", look.command, look.want, got)
		}
	}
	for _, host := range []string{"169.254.0.1", "fd63::1"} {
		fakenode.InNamespace(t, path, "ip", "route", "del", host, "dev", "eth0")
		if err := n.Check(spec); err == nil || !strings.Contains(err.Error(), "route to "+host) {
			t.Errorf("without a route to %s Check finds: %v", host, err)
		}
	}
	if got := fakenode.InNamespace(t, path, "ip", "-6", "addr", "show", "dev", "eth0", "tentative"); strings.Contains(got, "fd00::2") {
		t.Errorf("the address waits for the test for duplicates:\n%s", got)
	}
}

// A router of the VLAN advertises prefixes to all hosts there. The switch knows the endpoint by the addresses of
// the specification, and drops packets with other sources.
func TestAnInterfaceTakesNothingThatRoutersAdvertise(t *testing.T) {
	for name, spec := range map[string]podlink.Spec{
		"p7": {Name: "eth0", MAC: "02:02:0a:00:00:07", Announce: true,
			Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/24"), netip.MustParsePrefix("fd00::7/64")},
			Gateways:  []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}},
		"p8": {Name: "eth0", MAC: "02:02:0a:00:00:08", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.8/24")}},
	} {
		n, path := connect(t, name)
		if _, err := configure(n, name, spec); err != nil {
			t.Fatal(err)
		}
		fakenode.Eventually(t, "advertisements are heard", func() bool {
			advertiseRouter(t, "v"+name)
			counters := strings.Fields(fakenode.InNamespace(t, path, "cat", "/proc/net/dev_snmp6/eth0"))
			heard, err := strconv.Atoi(counters[slices.Index(counters, "Icmp6InRouterAdvertisements")+1])
			return err == nil && heard > 1 // the first one has been processed
		})
		addresses := fakenode.InNamespace(t, path, "ip", "-6", "-o", "address", "show", "dev", "eth0", "scope", "global")
		routes := fakenode.InNamespace(t, path, "ip", "-6", "route", "show")
		if strings.Contains(addresses, advertised) || strings.Contains(routes, advertised) || strings.Contains(routes, "proto ra") {
			t.Errorf("%s after a router has advertised %s:\n%s%s", name, advertised, addresses, routes)
		}
		if err := n.Check(spec); err != nil {
			t.Errorf("Check finds: %v", err)
		}
	}
}

// advertised is the prefix of the router.
const advertised = "2001:db8:7:"

// advertiseRouter sends a router advertisement (RFC 4861, 4.2) out of a link: of a default route, and of a prefix to
// make addresses of.
func advertiseRouter(t *testing.T, link string) {
	t.Helper()
	from, to := netip.MustParseAddr("fe80::1"), netip.MustParseAddr("ff02::1")
	icmp := []byte{134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, // for 1800 s
		3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 14, 16, 0, 0, 0, 0} // a /64 that is on the link, for autonomous configuration
	icmp = append(icmp, netip.MustParseAddr(advertised+":").AsSlice()...)
	ends := append(from.AsSlice(), to.AsSlice()...)
	sum := uint32(0)
	for over := slices.Concat(ends, []byte{0, byte(len(icmp)), 0, unix.IPPROTO_ICMPV6}, icmp); len(over) > 0; over = over[2:] {
		sum += uint32(binary.BigEndian.Uint16(over))
	}
	binary.BigEndian.PutUint16(icmp[2:], ^uint16(sum+sum>>16))
	frame := slices.Concat([]byte{0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, byte(len(icmp)), unix.IPPROTO_ICMPV6, 255}, ends, icmp)
	out, err := net.InterfaceByName(link)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(socket)
	if err := unix.Sendto(socket, frame, 0, &unix.SockaddrLinklayer{Ifindex: out.Index}); err != nil {
		t.Fatal(err)
	}
}

func TestOffloadsStayWithoutUserspaceDatapath(t *testing.T) {
	n, path := connect(t, "p2")
	_, err := configure(n, "p2", podlink.Spec{Name: "eth0", MAC: "02:02:0a:00:00:03", Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.3/24")}})
	if err != nil {
		t.Fatal(err)
	}
	if got := fakenode.InNamespace(t, path, "ethtool", "-k", "eth0"); !strings.Contains(got, "tx-checksum-ip-generic: on") {
		t.Error(got)
	}
}

func TestWhatCannotBeDoneIsNamed(t *testing.T) {
	n, path := connect(t, "p3")
	if _, err := n.Take("nolink", podlink.Spec{Name: "eth1"}); !errors.Is(err, podlink.ErrNoLink) || !strings.Contains(err.Error(), "nolink") {
		t.Errorf("a link that is not there: %v", err)
	}
	if err := n.Check(podlink.Spec{Name: "eth7"}); err == nil || !strings.Contains(err.Error(), "eth7 is missing in "+path) {
		t.Errorf("an interface that is not there: %v", err)
	}
	link := "p3"
	for what, spec := range map[string]podlink.Spec{
		"MTU":   {Name: "eth0", MAC: "02:02:0a:00:00:03", MTU: 1 << 20},
		"02:xx": {Name: "eth0", MAC: "02:xx"},
		"route": {Name: "eth0", MAC: "02:02:0a:00:00:03", Gateways: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
	} {
		if _, err := configure(n, link, spec); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%+v: %v, want %q in it", spec, err, what)
		}
		link = "eth0" // it has its name, whatever failed then
	}
	for path, kind := range map[string]fault.Kind{
		"/nowhere": fault.NotFound, "/etc/passwd": fault.Invalid, "/proc/thread-self/ns/mnt": fault.Invalid, "": fault.NotFound,
	} {
		if _, err := podlink.Open(path); !fault.Is(err, kind) {
			t.Errorf("open %q: %v, want %v", path, err, kind)
		}
	}
}

func TestNoGoroutineEndsUpInAContainersNamespace(t *testing.T) {
	n, _ := connect(t, "p4")
	own, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if _, err := n.Take("eth7", podlink.Spec{Name: "eth8"}); !errors.Is(err, podlink.ErrNoLink) {
				t.Errorf("take what is not there: %v", err)
			}
			if err := n.Check(podlink.Spec{Name: "eth7"}); err == nil {
				t.Error("eth7 was found")
			}
			if at, err := os.Readlink("/proc/thread-self/ns/net"); err != nil || at != own {
				t.Errorf("goroutine in namespace %s (%v), process in %s", at, err, own)
			}
		})
	}
	group.Wait()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	strays := 0
	for _, task := range tasks {
		if at, err := os.Readlink("/proc/self/task/" + task.Name() + "/ns/net"); err == nil && at != own {
			strays++
		}
	}
	// The thread the test made the namespace on may be the first of the
	// process, which the Go runtime cannot end.
	if strays > 1 {
		t.Errorf("%d threads are in another namespace", strays)
	}
}
