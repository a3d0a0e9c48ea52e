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

// checkBGP checks the sessions of a node with the routers outside, if it is to have any.
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

// checkRouters names nodes that have one address among the routers outside, as earlier versions let them: neighbours take the
// one for the other.
func checkRouters(ctx context.Context, m Master, report Report) {
	kind, _ := contivmodel.KindByType("Bgp")
	all, err := m.List(ctx, kind)
	if fault.Is(err, fault.Denied) {
		return // who sees some tenants only is told nothing of nodes
	}
	if shared := sharedAddresses(all); err == nil && len(shared) > 0 {
		err = errors.New(strings.Join(shared, "; "))
	}
	if err != nil {
		report.check("routers", "give each node an address of its own: netctl bgp create", "", err)
	}
}

// sharedAddresses are those that several of the speakers have, each with its nodes.
func sharedAddresses(speakers []contivmodel.Object) (shared []string) {
	hosts := map[string][]string{} // by an address and what it is
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

// sessions says how it stands with the neighbours; an error names those without a session, and those whose session comes and goes.
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
