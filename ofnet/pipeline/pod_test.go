package pipeline

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/test/ovstest"
)

// pod is an endpoint with a network namespace.
type pod struct {
	Endpoint
	t     *testing.T
	node  *node
	netns string
	port  uint32
}

// podScript creates a pod's interface; it runs in the switch's namespace.
const podScript = `
ip link add "v$2" up type veth peer name eth0 netns "$1" address "$3" mtu 1450
ip netns exec "$1" sh -ec 'ethtool -K eth0 tx off >/dev/null; exec ip -batch -' <<END
link set lo up
link set eth0 up
addr add $4/24 dev eth0
addr add $5/64 dev eth0 nodad
route add default via $6
route add default via $7
END
ovs-vsctl --db="unix:$8" --timeout=60 add-port br-int "v$2" -- set interface "v$2" ofport_request="$2"`

func (p *pod) start() {
	p.t.Helper()
	// Not in the switch's namespace: what is mounted there is not visible outside.
	p.netnsCommand("add")
	p.t.Cleanup(func() { p.netnsCommand("del") })
	in := networkOf(p.Endpoint)
	p.node.Exec("sh", "-ec", podScript, "sh", p.netns, strconv.Itoa(int(p.port)), net.HardwareAddr(p.MAC[:]).String(),
		p.IPv4.String(), p.IPv6.String(), in.Gateway.String(), in.Gateway6.String(), p.node.Socket)
	p.node.AwaitLink(fmt.Sprint("v", p.port))
}

func (p *pod) netnsCommand(verb string) {
	p.t.Helper()
	if out, err := exec.Command("ip", "netns", verb, p.netns).CombinedOutput(); err != nil {
		p.t.Fatalf("ip netns %s %s: %v: %s", verb, p.netns, err, out)
	}
}

// exec runs a command in the pod.
func (p *pod) exec(args ...string) (string, error) {
	return ovstest.Run(p.command(args...))
}

// inside calls a function on a thread in the pod's network namespace. Sockets created there stay there.
func (p *pod) inside(do func() error) error {
	result := make(chan error)
	go func() {
		// The thread is never unlocked, so it ends with the goroutine and no other goroutine runs in the pod's
		// network.
		runtime.LockOSThread()
		handle, err := netns.GetFromName(p.netns)
		if err != nil {
			result <- fmt.Errorf("network namespace %s: %w", p.netns, err)
			return
		}
		defer handle.Close()
		if err := netns.Set(handle); err != nil {
			result <- fmt.Errorf("enter network namespace %s: %w", p.netns, err)
			return
		}
		result <- do()
	}()
	return <-result
}

// ping returns the hop limit of the answer, 0 if there is none.
func (p *pod) ping(to netip.Addr) int {
	out, err := p.exec("ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", to.String())
	var ttl int
	_, after, found := strings.Cut(out, "ttl=")
	if err != nil || !found {
		return 0
	}
	if _, err := fmt.Sscanf(after, "%d", &ttl); err != nil {
		p.t.Errorf("ping %s: no TTL in %q", to, out)
	}
	return ttl
}

// pinged is ping where an answer is expected: it repeats until there is one.
func (p *pod) pinged(to netip.Addr) (ttl int) {
	p.t.Helper()
	eventually(func() string {
		ttl = p.ping(to)
		return strings.Repeat("answered", ttl)
	})
	return ttl
}

// pings is ping, or pinged if want is not 0.
func (p *pod) pings(to netip.Addr, want int) (ttl int) {
	p.t.Helper()
	if want == 0 {
		return p.ping(to)
	}
	return p.pinged(to)
}

// command returns a command that runs in the pod.
func (p *pod) command(args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", p.netns}, args...)...)
}
