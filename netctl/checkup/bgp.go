package checkup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// checkBGP checks the sessions of a node with external routers, if any are configured.
func checkBGP(ctx context.Context, host string, asked agent, report Report) {
	var view *mastercfg.NodeBgp // null
	answer, err := asked.get(ctx, "/inspect/bgp")
	if err == nil {
		err = json.Unmarshal(answer, &view)
	}
	if err == nil && view == nil {
		return
	}
	detail := ""
	if err == nil {
		detail, err = sessions(*view)
	}
	report.check("bgp "+host, "see netctl bgp inspect "+host+", and the router's log", detail, err)
}

// checkRouters reports nodes with the same address towards external routers, which earlier versions allowed:
// neighbours take one node for the other.
func checkRouters(ctx context.Context, m Master, report Report) {
	kind, _ := contivmodel.KindByType("Bgp")
	all, err := m.List(ctx, kind)
	if fault.Is(err, fault.Denied) {
		return // a caller without rights on all tenants cannot list nodes
	}
	if shared := sharedAddresses(all); err == nil && len(shared) > 0 {
		err = errors.New(strings.Join(shared, "; "))
	}
	if err != nil {
		report.check("routers", "give each node an address of its own: netctl bgp create", "", err)
	}
}

// sharedAddresses returns the addresses that several speakers have, each with its nodes.
func sharedAddresses(speakers []contivmodel.Object) (shared []string) {
	hosts := map[string][]string{} // by address and its use
	for _, o := range speakers {
		b, is := o.(*contivmodel.Bgp)
		if !is {
			continue
		}
		for what, text := range map[string]string{"router-ip": b.Routerip, "router-ipv6": b.Ipv6Routerip} {
			if link, err := netip.ParsePrefix(text); err == nil { // else it has none
				address := link.Addr().String() + " is the " + what
				hosts[address] = append(hosts[address], b.Hostname)
			}
		}
	}
	for _, address := range slices.Sorted(maps.Keys(hosts)) {
		if of := hosts[address]; len(of) > 1 {
			shared = append(shared, address+" of "+strings.Join(slices.Sorted(slices.Values(of)), ", "))
		}
	}
	return shared
}

// sessions summarizes the sessions; the error names neighbours without a session, and those with a flapping one.
func sessions(view mastercfg.NodeBgp) (string, error) {
	if view.Problem != "" {
		return "", errors.New(view.Problem)
	}
	var lost []string
	for _, p := range view.Peers {
		neighbour := fmt.Sprintf("%s of AS %d", p.Config.NeighborAddress, p.Config.PeerAs)
		if p.State.SessionState != "established" {
			text := "no session with " + neighbour
			if p.State.LastError != "" {
				text += ": " + p.State.LastError
			}
			lost = append(lost, text)
		}
		if p.State.Flapping != "" {
			lost = append(lost, neighbour+" flaps: "+p.State.Flapping)
		}
	}
	return fmt.Sprintf("%d neighbours, %d routes", len(view.Peers), len(view.Dsts)), unless(len(lost) == 0, "%s", strings.Join(lost, "; "))
}
