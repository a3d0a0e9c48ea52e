package border

import (
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/netplugin/bgp"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// Where an operator has disabled IPv6, the interface has none, until the configuration needs it. Both are logged,
// once.
func TestIPv6StaysOffWhereItIsSwitchedOffUnlessItIsNeeded(t *testing.T) {
	testkit.NeedsMachine(t)
	pod := pipeline.Endpoint{ID: "pod", Encap: pipeline.VLAN, Local: true, IPv4: addr("10.1.7.1"), IPv6: addr("fd00:7::1")}
	elsewhere := pipeline.Endpoint{ID: "elsewhere", Encap: pipeline.VLAN, IPv4: addr("10.1.7.2"), IPv6: addr("fd00:7::2"), VTEP: addr("192.0.2.8")}
	four := agent.BGP{AS: 1, Link: netip.MustParsePrefix("203.0.113.11/24"), Neighbours: []bgp.Neighbour{{Address: addr("203.0.113.1"), AS: 2}}}
	six, beside := four, four
	six.Link6 = netip.MustParsePrefix("2001:db8::11/64")
	beside.Neighbours = append(beside.Neighbours, bgp.Neighbour{Address: addr("2001:db8::1"), AS: 2})
	for _, c := range []struct {
		name, off string
		wanted    agent.BGP
		there     []pipeline.Object
		speaks    bool
		says      string
	}{
		{"on", "", four, nil, true, ""},
		{"off at all", "all", four, []pipeline.Object{elsewhere}, false, "IPv6 stays off at inb01, as net.ipv6.conf.all.disable_ipv6 says"},
		{"off at new ones", "default", four, nil, false, "IPv6 stays off at inb01, as net.ipv6.conf.default.disable_ipv6 says"},
		{"an address is wanted", "all", six, nil, true, "2001:db8::11/64 among the routers"},
		{"a router has IPv6", "all", beside, nil, true, "speaks with router 2001:db8::1"},
		{"a pod has IPv6", "default", four, []pipeline.Object{pod}, true, "told of fd00:7::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, func() {
				sh(t, "ip link set lo up")
				if c.off != "" {
					sh(t, "sysctl -qw net.ipv6.conf."+c.off+".disable_ipv6=1")
				}
				sh(t, "ip link add vvport7 type veth peer name vport7; ip link set vvport7 up")
				log := logrus.New()
				log.SetOutput(io.Discard)
				lines := test.NewLocal(log)
				border := New(Config{Driver: &wired{}, StateFile: filepath.Join(t.TempDir(), "routes.json"), Log: log.WithField("component", "border")})
				border.Update(drivers.Change{Replace: true, Set: c.there})
				for range 2 {
					if err := border.applyRouter(t.Context(), &c.wanted); err != nil {
						t.Fatal(err)
					}
				}
				value, err := os.ReadFile("/proc/sys/net/ipv6/conf/inb01/disable_ipv6")
				if on := strings.TrimSpace(string(value)) == "0"; err != nil || on != c.speaks {
					t.Errorf("disable_ipv6 is %q, %v", value, err)
				}
				var said []string
				for _, e := range lines.AllEntries() {
					if strings.Contains(e.Message, "IPv6") {
						said = append(said, e.Message)
					}
				}
				if c.says == "" && len(said) > 0 || c.says != "" && (len(said) != 1 || !strings.Contains(said[0], c.says)) {
					t.Errorf("said %q, want one with %q", said, c.says)
				}
				if err := border.arp.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
