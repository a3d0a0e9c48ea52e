package hostaccess

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/test/fakenode"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/netspace"
)

// No policy applies to packets to the host's own address on the link: it accepts answers there, and nothing else,
// neither for itself nor for a host port.
func TestEndpointsAnswerTheHostAndBeginNothing(t *testing.T) {
	testkit.NeedsMachine(t)
	inside, world := fakenode.NewNamespace(t), fakenode.NewNamespace(t)
	t.Cleanup(func() { run(t, "ip link del contivh0; ip link del world; nft flush ruleset") })
	run(t, "set -- "+inside+" "+world+shareTopology)
	ports := hostPorts{[]HostPort{{mastercfg.HostPort{Protocol: "udp", Port: 5001, To: 5001}, 8, true, false, ""}}, wayOut}
	var r rules
	if err := r.apply(t.Context(), tableFor(wayOut, closed, "inb01", 2000).withHostPorts(ports)); err != nil {
		t.Fatal(err)
	}
	pods, err := netns.GetFromPath(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer pods.Close()

	// Arriving packets are counted, and the last one awaited.
	run(t, `for hook in input forward; do nft add chain inet seen count-$hook "{ type filter hook $hook priority 310; }"
nft add rule inet seen count-$hook iifname contivh0 udp dport 5000-5001 counter; done
nft add chain inet seen fence '{ type filter hook input priority 310; }'
nft add rule inet seen fence iifname contivh0 udp dport 4999 counter`)
	err = netspace.In(&pods, func() error {
		for _, to := range []string{"172.19.255.254:5000", "172.19.255.254:5001", "[fd63:6f6e:7469:7601::fffe]:5000", "203.0.113.1:4999"} {
			c, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			_, err = c.Write([]byte("hello"))
			if err := errors.Join(err, c.Close()); err != nil && !errors.Is(err, unix.ECONNREFUSED) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, time.Minute, "the last one arrives", func() bool {
		return strings.Contains(run(t, "nft list chain inet seen fence"), "packets 1 ")
	})
	for _, hook := range []string{"input", "forward"} {
		if got := run(t, "nft list chain inet seen count-"+hook); !strings.Contains(got, "packets 0 ") {
			t.Errorf("an endpoint began a connection to the host as such:\n%s", got)
		}
	}

	for _, address := range []string{"172.19.0.7", "fd63:6f6e:7469:7601::7"} {
		if err := asksAndIsAnswered(pods, address); err != nil {
			t.Errorf("the host asks %s: %v", address, err)
		}
	}
}

// asksAndIsAnswered connects to an address in a namespace from here.
func asksAndIsAnswered(ns netns.NsHandle, address string) error {
	var server net.Listener
	err := netspace.In(&ns, func() (err error) {
		server, err = net.Listen("tcp", net.JoinHostPort(address, "0"))
		return err
	})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() {
		c, err := server.Accept()
		if err == nil {
			_, err = c.Write([]byte("answer"))
			err = errors.Join(err, c.Close())
		}
		served <- err
	}()
	defer func() { <-served }()
	defer server.Close()
	c, err := net.DialTimeout("tcp", server.Addr().String(), 10*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if text, err := io.ReadAll(c); err != nil || string(text) != "answer" {
		return fmt.Errorf("answer %q: %w", text, err)
	}
	return nil
}
