package ovsd_test

import (
	"slices"
	"testing"

	"github.com/contiv/netplugin/drivers"
)

func TestTunnelsComeByTheLinksOfTheBridgeThatHasTheirAddress(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.give(drivers.Change{Replace: true})
	are := func(why string, want ...string) {
		t.Helper()
		eventually(t, why, func() bool {
			links, err := r.TunnelLinks()
			if err != nil {
				t.Fatal(err)
			}
			return slices.Equal(links, want)
		})
	}
	are("the address is on a link of the kernel")
	n.AddBridge("br-phy")
	n.Vsctl("add-port", "br-phy", "under1", "--", "add-port", "br-phy", "int0", "--", "set", "Interface", "int0", "type=internal",
		"--", "add-port", "br-phy", "notthere", "--", "add-br", "br-other", "--", "set", "Bridge", "br-other", "datapath_type=netdev",
		"--", "add-port", "br-phy", "there", "--", "set", "Interface", "there", "type=patch", "options:peer=back",
		"--", "add-port", "br-other", "back", "--", "set", "Interface", "back", "type=patch", "options:peer=there")
	move := func(from, to string) {
		n.Exec("ip", "address", "del", "192.0.2.1/24", "dev", from)
		n.Exec("ip", "address", "add", "192.0.2.1/24", "dev", to)
	}
	move("under0", "br-phy")
	are("the link of the bridge that has the address", "under1")
	move("br-phy", "int0")
	are("the bridge has it on another interface", "under1")
	move("int0", "br-other")
	are("the bridge with the address has no link of the kernel")
	move("br-other", "br-phy")
	are("it is back", "under1")
	n.Vsctl("set", "Bridge", "br-phy", "datapath_type=system")
	are("where the kernel forwards it needs the packets")
}
