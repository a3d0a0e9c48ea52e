package checkup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
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
