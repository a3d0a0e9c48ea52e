package ovsd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// limitOf returns the limit of a zone, as the datapath prints it; "" if it has none.
func (n *node) limitOf(zone uint16) string {
	n.t.Helper()
	_, after, found := strings.Cut(n.Appctl("dpctl/ct-get-limits", "netdev@ovs-netdev"), fmt.Sprintf("zone=%d,limit=", zone))
	if !found {
		return ""
	}
	limit, _, _ := strings.Cut(after, ",")
	return limit
}

// A tenant that later gets the same number would inherit the limits, and the kernel keeps them for ever.
func TestLimitsGoWithTheirTenant(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval, n.config.ZoneLimit = 50*time.Millisecond, 50
	red := network
	red.ID, red.Tenant, red.VRF, red.VNI, red.Tag = "web.red", "red", 2, 5002, 2
	blue, both := drivers.Change{Replace: true, Set: []pipeline.Object{network}}, drivers.Change{Replace: true, Set: []pipeline.Object{network, red}}
	zones := pipeline.Zones(red.VRF)
	limits := func(what string, services, policies string) {
		t.Helper()
		eventually(t, what, func() bool {
			return n.limitOf(zones[0]) == services && n.limitOf(zones[1]) == policies && n.limitOf(network.VRF) == "50"
		})
	}
	r := n.start()
	r.give(both)
	limits("both tenants are limited", "50", "50")
	r.give(drivers.Change{Remove: []pipeline.Key{red.Key()}})
	limits("one has gone, and its limits", "", "")
	r.give(both)
	limits("it is back", "50", "50")
	r.stop()
	r = n.start()
	r.give(blue)
	limits("it has gone while no driver ran", "", "")
	r.give(both)
	limits("it is back once more", "50", "50")
	r.give(drivers.Change{Remove: []pipeline.Key{red.Key(), network.Key()}})
	eventually(t, "both have gone", func() bool {
		return n.limitOf(network.VRF) == "" && n.limitOf(zones[0]) == "" && n.limitOf(zones[1]) == ""
	})
	eventually(t, "nothing is remembered of them", func() bool {
		return n.Vsctl("get", "bridge", bridge, "external_ids") == "{}\n"
	})
}

// The driver's own limit is recorded in the bridge's row; another value was set by another program.
func TestALimitThatSomebodyHasSetStaysWhenTheTenantGoes(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 50 * time.Millisecond
	red := network
	red.ID, red.Tenant, red.VRF, red.VNI, red.Tag = "web.red", "red", 2, 5002, 2
	r := n.start()
	r.give(drivers.Change{Replace: true, Set: []pipeline.Object{network, red}})
	zones := pipeline.Zones(red.VRF)
	eventually(t, "both tenants are limited", func() bool { return n.limitOf(zones[0]) == "750000" && n.limitOf(zones[1]) == "750000" })
	n.Appctl("dpctl/ct-set-limits", "netdev@ovs-netdev", fmt.Sprintf("zone=%d,limit=70", zones[0]))
	r.give(drivers.Change{Remove: []pipeline.Key{red.Key()}})
	eventually(t, "the other limit of the tenant has gone", func() bool { return n.limitOf(zones[1]) == "" })
	if got := n.limitOf(zones[0]); got != "70" {
		t.Errorf("somebody's limit is %q", got)
	}
}
