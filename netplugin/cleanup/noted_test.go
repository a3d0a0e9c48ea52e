package cleanup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/drivers/ovsd/zones"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/ovstest"
	"github.com/contiv/netplugin/test/testkit"
)

const someLimit = 50

// limitTenant runs a driver until it has limited the connections of a tenant.
func limitTenant(t *testing.T, s *ovstest.Switch) {
	t.Helper()
	s.Exec("ip", "address", "add", "192.0.2.1/32", "dev", "lo")
	ns, err := netns.GetFromName(s.Netns)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	log := logrus.New()
	log.SetOutput(io.Discard)
	d, err := ovsd.New(ovsd.Config{RunDir: s.RunDir, VTEP: netip.MustParseAddr("192.0.2.1"), NetNS: &ns, ZoneLimit: someLimit, Log: logrus.NewEntry(log)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	d.Update(drivers.Change{Replace: true, Set: []pipeline.Object{pipeline.Network{ID: "web.blue", Tenant: "blue", VRF: 1, VNI: 5001, Tag: 1}}})
	testkit.Eventually(t, time.Minute, "the tenant is limited", func() bool { return limited(s, 1) && limited(s, 32769) })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}

func limited(s *ovstest.Switch, zone uint16) bool {
	return strings.Contains(s.Appctl("dpctl/ct-get-limits", "netdev@ovs-netdev"), fmt.Sprintf("zone=%d,limit=", zone))
}

// Another bridge keeps the datapath, as the kernel keeps its limits.
func TestLimitsOfTenantsAreNamedAndRemoved(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge("br-other")
	limitTenant(t, s)
	s.Appctl("dpctl/ct-set-limits", "netdev@ovs-netdev", "zone=7,limit=50")
	const what = "limits of connections in zones 1,32769 of datapath netdev@ovs-netdev"
	var said strings.Builder
	c := Config{RunDir: s.RunDir, Bridges: []string{ovsd.DefaultBridge, ovsd.DefaultUplinkBridge}, DryRun: true, Out: &said}
	if err := Run(t.Context(), c); err != nil || !strings.Contains(said.String(), "would remove "+what+"\n") {
		t.Errorf("a dry run says %q, %v", &said, err)
	}
	things, err := limits(t.Context(), c)
	if err != nil || len(things) != 1 || things[0].what != what {
		t.Fatalf("limits: %+v, %v", things, err)
	}
	if err := things[0].remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if limited(s, 1) || limited(s, 32769) || !limited(s, 7) {
		t.Error(s.Appctl("dpctl/ct-get-limits", "netdev@ovs-netdev"))
	}
	if things, err := limits(t.Context(), c); err != nil || len(things) > 0 {
		t.Errorf("once more: %+v, %v", things, err)
	}
}

// Limits in the kernel can be named by the row of their bridge only, and removed by ovs-vswitchd.
func TestABridgeStaysWhileLimitsInTheKernelAreLeft(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge(ovsd.DefaultBridge)
	const noted = "1=50,32769=50"
	s.Vsctl("set", "bridge", ovsd.DefaultBridge, `external_ids:zone-limits="`+noted+`"`)
	if own, err := zones.OwnLimitsOf(t.Context(), s.RunDir, ovsd.DatapathSystem, map[string]string{"zone-limits": noted}); err != nil || own.Any() {
		t.Errorf("ovs-vswitchd knows of no such datapath, or of no such limits: %s, %v", own, err)
	}
	c := Config{RunDir: s.RunDir, Bridges: []string{ovsd.DefaultBridge}, Out: io.Discard}
	s.KillVswitchd()
	if things, err := limits(t.Context(), c); err != nil || len(things) > 0 {
		t.Errorf("they have ended with ovs-vswitchd: %+v, %v", things, err)
	}
	s.Vsctl("--no-wait", "set", "bridge", ovsd.DefaultBridge, "datapath_type=system")
	if things, err := limits(t.Context(), c); err == nil || len(things) > 0 {
		t.Errorf("nobody knows what the kernel has: %+v, %v", things, err)
	}
	found, err := bridges(t.Context(), c)
	if err != nil || len(found) != 1 {
		t.Fatalf("bridges: %+v, %v", found, err)
	}
	if err := found[0].remove(t.Context()); err == nil || !strings.Contains(err.Error(), "zones 1,32769 of datapath system@ovs-system") {
		t.Errorf("the bridge, before its limits: %v", err)
	}
	if got := s.Vsctl("list-br"); !strings.Contains(got, ovsd.DefaultBridge) {
		t.Errorf("bridges that are left: %s", got)
	}
}

func TestRoutesOfTunnelsAreNamedAndRemoved(t *testing.T) {
	s := ovstest.Start(t)
	s.AddBridge("br-phy")
	s.Exec("ip", "address", "add", "192.0.2.1/24", "dev", "br-phy")
	s.Exec("ip", "link", "set", "br-phy", "up")
	s.AddBridge(ovsd.DefaultBridge)
	s.Vsctl("set", "bridge", ovsd.DefaultBridge, `external_ids:tunnel-routes="0.0.0.0/0,10.0.0.0/8,192.0.2.0/24"`)
	s.Appctl("ovs/route/add", "192.0.2.0/24", "br-phy")
	s.Appctl("ovs/route/add", "0.0.0.0/0", "br-phy", "192.0.2.254")
	s.Appctl("ovs/route/add", "198.51.100.0/24", "br-phy", "192.0.2.254") // somebody else's
	c := Config{RunDir: s.RunDir, Bridges: []string{ovsd.DefaultBridge}, Out: io.Discard}
	things, err := routes(t.Context(), c)
	if err != nil || len(things) != 1 || things[0].what != "routes of tunnels in ovs-vswitchd to 0.0.0.0/0,192.0.2.0/24" {
		t.Fatalf("routes: %+v, %v", things, err)
	}
	if err := things[0].remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := s.Appctl("ovs/route/show"); strings.Count(left, "User:") != 1 || !strings.Contains(left, "User: 198.51.100.0/24") {
		t.Error(left)
	}
	none := func(why string) {
		if things, err := routes(t.Context(), c); err != nil || len(things) > 0 {
			t.Errorf("%s: %+v, %v", why, things, err)
		}
	}
	none("once more")
	s.KillVswitchd()
	none("ovs-vswitchd has ended, and they with it")
}
