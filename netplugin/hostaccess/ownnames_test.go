package hostaccess

import (
	"context"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/test/testkit"
	"github.com/contiv/netplugin/utils/fault"
)

// joining is an agent that records for which endpoints an interface of the host was to be made.
type joining struct {
	onlyInfra
	joined []string
}

func (d *joining) PreparePort(_ context.Context, id string, _ int) (drivers.Port, error) {
	d.joined = append(d.joined, id)
	return drivers.Port{}, fault.New(fault.Unavailable, "no port in this test")
}

// The interface of a network would be there first, as after a boot, and endpoints would have no way out.
func TestAnInfraNetworkHasNoNameOfAnotherInterfaceOfNetplugin(t *testing.T) {
	testkit.NeedsMachine(t)
	t.Cleanup(func() { run(t, "nft flush ruleset") })
	for name, joins := range map[string]bool{"contivh0": false, "inb01": false, "contivh2": true} {
		network := agent.HostNetwork{Network: mastercfg.CfgNetworkState{ID: name + ".blue", Tenant: "blue", NetworkName: name, NwType: "infra"}, Endpoint: &mastercfg.CfgEndpointState{}}
		node := &joining{onlyInfra: onlyInfra{networks: []agent.HostNetwork{network}}}
		m := New(Config{Datapath: node, Switch: Switch{Netdev: func() bool { return true }}, Barred: Barred{Closed: closed, RouterLink: "inb01"}, StateDir: t.TempDir(), HostLabel: "h1"})
		err := m.look(t.Context())
		if got := len(node.joined) > 0; got != joins || !joins && (err == nil || !strings.Contains(err.Error(), name+" is netplugin's own")) {
			t.Errorf("network %s gets an interface: %v, want %v; %v", name, got, joins, err)
		}
	}
}
