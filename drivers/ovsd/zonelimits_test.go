package ovsd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd"
	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/test/testkit"
)

// beginMany sends a datagram to a service from each of some ports.
const beginMany = `
import socket, sys
for _ in range(int(sys.argv[2])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"x", (sys.argv[1], 80))
`

// A pod that opens connections without end fills its tenant's part of the table, and no more.
func TestATenantHasAPartOfTheConnectionsOfItsNode(t *testing.T) {
	const limit = 50
	n := newNode(t)
	logger, said := test.NewNullLogger()
	n.config.ZoneLimit, n.config.AuditInterval, n.config.Log = limit, 50*time.Millisecond, logrus.NewEntry(logger)
	r := n.start()
	client, provider := n.newPod(r, 1), n.newPod(r, 2)
	all := everything(client, provider)
	service := shop(provider)
	service.Ports[0].Protocol = openflow.ProtoUDP
	all.Set = append(all.Set, service.Numbered(func(uint32) bool { return false }))
	r.give(all)

	limited := func() bool {
		limits := n.Appctl("dpctl/ct-get-limits", "netdev@ovs-netdev")
		for _, zone := range pipeline.Zones(network.VRF) {
			if !strings.Contains(limits, fmt.Sprintf("zone=%d,limit=%d,", zone, limit)) {
				return false
			}
		}
		return strings.Contains(limits, "default limit=0\n") && !strings.Contains(limits, "zone=7,")
	}
	eventually(t, "zones of the tenant are limited, and no others", limited)
	n.Appctl("dpctl/ct-del-limits", "netdev@ovs-netdev", fmt.Sprintf("zone=%d", network.VRF))
	eventually(t, "a limit that somebody has taken away is back", limited)
	n.KillVswitchd()
	n.StartVswitchd()
	eventually(t, "a switch that was restarted has them again", limited)
	r.sync()

	client.exec(testkit.Python, "-ISc", beginMany, service.Ports[0].Address.String(), fmt.Sprint(4*limit))
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(ovsd.DatapathMetrics{r.Driver}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the numbers tell that the tenant's part for services is used up", func() bool {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				if f.GetName() == "netplugin_tracked_connections" && m.GetLabel()[1].GetValue() == "services" && m.GetLabel()[2].GetValue() == network.Tenant {
					return m.GetGauge().GetValue() == limit
				}
			}
		}
		return false
	})
	eventually(t, "the log tells it", func() bool {
		return slices.ContainsFunc(said.AllEntries(), func(e *logrus.Entry) bool {
			return strings.Contains(e.Message, fmt.Sprintf("of at most %d connections of tenant %s, for services", limit, network.Tenant))
		})
	})
	if dump := n.Appctl("dpctl/dump-conntrack", "netdev@ovs-netdev"); strings.Count(dump, "zone=1") > limit {
		t.Errorf("more than %d connections:\n%s", limit, dump)
	}
}

// A tenant alone on a node may use the whole table; a limit set by another program remains.
func TestOnlySeveralTenantsAreHeldToParts(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 50 * time.Millisecond
	r := n.start()
	limits := func() string { return n.Appctl("dpctl/ct-get-limits", "netdev@ovs-netdev") }
	r.give(everything())
	n.Appctl("dpctl/ct-set-limits", "netdev@ovs-netdev", "zone=2,limit=70")
	other := network
	other.ID, other.Tenant, other.VRF, other.VNI, other.Tag = "web.red", "red", 2, 5002, 2
	for range 2 {
		r.give(drivers.Change{Set: []pipeline.Object{other}})
		eventually(t, "both tenants have parts, but for the zone that somebody has given less", func() bool {
			text := limits()
			return strings.Contains(text, "zone=1,limit=750000,") && strings.Contains(text, "zone=32769,limit=750000,") &&
				strings.Contains(text, "zone=32770,limit=750000,") && strings.Contains(text, "zone=2,limit=70,")
		})
		r.give(drivers.Change{Remove: []pipeline.Key{other.Key()}})
		eventually(t, "the first one has all of the table again, and nothing is left of the other one", func() bool {
			text := limits()
			return !strings.Contains(text, "zone=1,") && !strings.Contains(text, "zone=32769,") && !strings.Contains(text, "zone=32770,")
		})
	}
	if text := limits(); !strings.Contains(text, "zone=2,limit=70,") {
		t.Errorf("somebody's limit is gone: %s", text)
	}
}

// With a userspace datapath, packets evaluated by tiers pass even if the zone has no room for their connections.
func TestPacketsPassTiersWhoseConnectionsAreTooMany(t *testing.T) {
	const limit = 20
	n := newNode(t)
	n.config.ZoneLimit, n.config.AuditInterval = limit, 50*time.Millisecond
	r := n.start()
	a, b := n.newPod(r, 1), n.newPod(r, 2)
	a.endpoint.Tiers, b.endpoint.Tiers = pipeline.Tracked, pipeline.Tracked
	all := everything(a, b)
	all.Set = append(all.Set, pipeline.Epoch{Number: 1})
	r.give(all)
	full := func() bool {
		return strings.Contains(n.Appctl("dpctl/ct-get-limits", "netdev@ovs-netdev"), fmt.Sprintf("zone=%d,limit=%d,count=%d", pipeline.Zones(network.VRF)[1], limit, limit))
	}
	eventually(t, "the zone is limited", func() bool {
		return strings.Contains(n.Appctl("dpctl/ct-get-limits", "netdev@ovs-netdev"), fmt.Sprintf("zone=%d,limit=%d,", pipeline.Zones(network.VRF)[1], limit))
	})
	a.exec(testkit.Python, "-ISc", beginMany, b.endpoint.IPv4.String(), fmt.Sprint(4*limit))
	eventually(t, "the zone is full", full)
	a.exec("ping", "-c", "3", "-i", "0.01", "-W", "5", b.endpoint.IPv4.String())
	if !full() {
		t.Error("the zone was not full any more")
	}
}
