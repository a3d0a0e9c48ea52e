package scenario

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/netplugin/test/testbed"
)

// moveToVLAN changes the forwarding mode, which requires that there is no network, and moves the tenant to a VLAN
// of an external switch and router.
func (s *Scenario) moveToVLAN(ctx context.Context) error {
	if err := s.deletePods(ctx, "client", "shop1", "shop2"); err != nil {
		return err
	}
	err := s.netctlAll(ctx,
		[]string{"service", "rm", "-t", "green", "shop"},
		[]string{"group", "rm", "-t", "green", "shops"},
		[]string{"netprofile", "rm", "-t", "green", "slow"},
		[]string{"network", "rm", "-t", "green", "lan"},
		[]string{"global", "set", "--fwd-mode", "bridge"},
		[]string{"network", "create", "-t", "green", "-e", "vlan", "-p", fmt.Sprint(vlanID), "-s", "10.1.7.0/24", "-g", router4, "-s6", "fd00:7::/64", "-g6", router6, "office"},
	)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "   outside: VLAN %d, a Linux router with %s and %s\n", vlanID, router4, router6)
	if err := s.bed.AddVLAN(ctx, vlanID, netip.MustParsePrefix(router4+"/24"), netip.MustParsePrefix(router6+"/64")); err != nil {
		return err
	}
	for i, name := range []string{"desk1", "desk2"} {
		if err := s.attach(ctx, &testbed.Pod{Name: name, Node: s.bed.Nodes[i], Tenant: "green", Network: "office"}); err != nil {
			return err
		}
	}
	for _, address := range []string{router4, router6} {
		err := s.pings(ctx, s.pods["desk1"], address)
		s.check(err == nil, "desk1 reaches the router at %s", address)
	}
	address := s.pods["desk2"].IP.String()
	err = s.pings(ctx, s.bed.Outside, address)
	s.check(err == nil, "the router reaches desk2 at %s", address)
	return s.pingBoth(ctx, "desk1", "desk2")
}

func (s *Scenario) deleteSecondAct(ctx context.Context) error {
	if err := s.deletePods(ctx, "desk1", "desk2"); err != nil {
		return err
	}
	err := s.netctlAll(ctx,
		[]string{"network", "rm", "-t", "green", "office"},
		[]string{"tenant", "rm", "green"},
		[]string{"global", "set", "--fwd-mode", "routing"},
	)
	if err != nil {
		return err
	}
	if err := s.bed.RemoveVLAN(ctx, vlanID); err != nil {
		return err
	}
	return s.nothingIsLeft(ctx)
}

func (s *Scenario) deletePods(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.pods[name].Delete(ctx); err != nil {
			return err
		}
		delete(s.pods, name)
	}
	return nil
}
