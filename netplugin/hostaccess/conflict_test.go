package hostaccess

import (
	"context"
	"strings"
	"testing"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/netplugin/agent"
	"github.com/contiv/netplugin/utils/fault"
)

// onlyOutside is an agent of a node whose endpoints leave by the host.
type onlyOutside struct {
	Datapath
	port     drivers.Port
	detached []string
}

func (*onlyOutside) HostAccess() (agent.HostAccess, error) {
	o := wayOut
	return agent.HostAccess{Outside: &o}, nil
}

func (d *onlyOutside) PrepareOutside(context.Context) (drivers.Port, error) { return d.port, nil }

func (d *onlyOutside) Detach(_ context.Context, id string) error {
	d.detached = append(d.detached, id)
	return nil
}

// Other software may begin to use the private subnet while endpoints leave by the host.
func TestAConflictLeavesAWayOutItsRules(t *testing.T) {
	port, _ := pair(t)
	t.Cleanup(func() { run(t, "ip link del d0; nft flush ruleset") })
	run(t, "ip link add d0 type bridge; ip link set d0 up; ip addr add 192.0.2.1/24 dev d0")
	node := &onlyOutside{port: port}
	manager := func() *Manager {
		return New(Config{Datapath: node, Switch: Switch{Netdev: func() bool { return false }}, Barred: Barred{Closed: closed, RouterLink: "inb01"}, StateDir: t.TempDir()})
	}
	first := manager()
	if err := first.look(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, "ip route add 172.16.0.0/12 via 192.0.2.9") // of a tunnel to somewhere
	for when, m := range map[string]*Manager{"the run that made it": first, "a run that finds it": manager()} {
		run(t, "nft flush ruleset")
		if err := m.look(t.Context()); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "route to 172.16.0.0/12") {
			t.Errorf("%s: says %v", when, err)
		}
		if rules := run(t, "nft list ruleset"); !strings.Contains(rules, "elements = { 2379, 9999 }") {
			t.Errorf("%s: control ports stay open:\n%s", when, rules)
		}
	}
	if len(node.detached) > 0 {
		t.Errorf("closed: %q", node.detached)
	}

	run(t, "ip addr flush dev contivh0") // it is no way out of this subnet
	if err := manager().look(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("without the address: says %v", err)
	}
	if rules := run(t, "nft list ruleset"); len(node.detached) != 1 || strings.Contains(rules, "contiv") {
		t.Errorf("without the address: closed %q, rules:\n%s", node.detached, rules)
	}
}
