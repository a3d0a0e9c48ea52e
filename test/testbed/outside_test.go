package testbed

import (
	"net/netip"
	"testing"

	"github.com/vishvananda/netns"

	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/test/vlanlink"
)

func TestTheOutsideSwitchesAndRoutesVLANs(t *testing.T) {
	ctx, bed := newBareBed(t, Config{Uplinks: 2, Detach: true, Dir: t.TempDir()})
	bed, err := Open(bed.Dir) // as bin/testbed does
	if err != nil {
		t.Fatal(err)
	}
	for id, router := range map[uint16]string{107: "10.1.7.1/24", 4094: "10.1.8.1/24"} {
		if err := bed.AddVLAN(ctx, id, netip.MustParsePrefix(router)); err != nil {
			t.Fatal(err)
		}
	}
	for i, member := range []struct {
		vlan            uint16
		uplink          int
		address, router string
	}{{107, 1, "10.1.7.2/24", "10.1.7.1"}, {4094, 2, "10.1.8.2/24", "10.1.8.1"}} {
		n := bed.Nodes[i]
		ns, err := netns.GetFromPid(n.pid)
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		if err := vlanlink.Add(ns, UplinkName(member.uplink), "tagged", member.vlan); err != nil {
			t.Fatal(err)
		}
		if _, err := n.Run(ctx, "sh", "-ec", `ip address add "$1" dev tagged; ip route add 10.1.0.0/16 via "$2"`, "sh", member.address, member.router); err != nil {
			t.Fatal(err)
		}
	}
	ping := func(address string) error {
		return testkit.Poll(ctx, func() error {
			_, err := bed.Nodes[0].Run(ctx, "ping", "-c1", "-W1", "-n", address)
			return err
		})
	}
	for _, address := range []string{"10.1.7.1", "10.1.8.2"} {
		if err := ping(address); err != nil {
			t.Error(err)
		}
	}
	if err := bed.RemoveVLAN(ctx, 4094); err != nil {
		t.Fatal(err)
	}
	if err := bed.AddVLAN(ctx, 4094, netip.MustParsePrefix("10.1.8.1/24")); err != nil {
		t.Fatal(err)
	}
	if err := ping("10.1.8.2"); err != nil {
		t.Error("in a VLAN that was made again:", err)
	}
}
