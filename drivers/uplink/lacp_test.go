package uplink_test

import (
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers/uplink"
	"github.com/contiv/netplugin/test/testkit"
)

// The other side answers one leg by LACP and not the other, as its port there is in no port-channel: the bond does not
// use that one, which has a carrier all the same.
func TestALegWithoutALACPPartnerIsNamedUntilItHasOne(t *testing.T) {
	t.Parallel() // it waits most of the time
	n := newNode(t)
	n.wire("up2") // a bond begins with two
	n.outside.Vsctl("add-bond", "sw", "team", "to-up0", "to-up2", "bond_mode=balance-tcp", "lacp=active")
	n.outside.Vsctl("add-port", "sw", "to-up1")
	b, _ := n.keep(uplink.BalanceTCP, "up0", "up1")
	testkit.Eventually(t, 3*time.Minute, "only the leg without a partner is named", func() bool { // it has half of a minute
		states := b.States()
		return states["up0"] == "" && strings.Contains(states["up1"], "LACP is not current")
	})
	n.says(b, "uplink up1: LACP is not current")
	n.reaches("by the other leg")
	for len(b.Returned()) > 0 {
		<-b.Returned()
	}
	n.outside.Vsctl("del-port", "to-up1")
	n.outside.Vsctl("add-bond-iface", "team", "to-up1")
	n.eventually("others are told that up1 has returned", func() bool { return len(b.Returned()) > 0 })
	n.says(b, "")
	n.reaches("by two legs")
}
