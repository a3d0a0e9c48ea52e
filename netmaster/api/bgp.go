package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// speakerSegment is the collection of BGP speakers.
const speakerSegment = "Bgps"

// inspectSpeaker answers a BGP speaker with its state. Its node is asked before the answer is written: long answers are
// written twice, and wait for each other.
func (a *API) inspectSpeaker(r *http.Request) (rest.Reply, error) {
	host := mux.Vars(r)["key"]
	if err := a.mustExist("Bgp", host); err != nil {
		return rest.Reply{}, err
	}
	oper, err := a.bgpOper(r.Context(), host)
	if err != nil {
		return rest.Reply{}, err
	}
	return a.read(r, func(_ objects.Type, _ ledger.Reader, stored contivmodel.Object) (rest.Reply, error) {
		return rest.Reply{Body: contivmodel.BgpInspect{Config: *stored.(*contivmodel.Bgp), Oper: oper}}, nil
	})
}

// bgpOper reads the BGP state of a node from its agent. It is empty for a node that is not registered or runs
// no BGP speaker; if the agent does not answer, that is the reported problem.
func (a *API) bgpOper(ctx context.Context, host string) (contivmodel.BgpOper, error) {
	var oper contivmodel.BgpOper
	at, registered, err := a.agentOf(ctx, mastercfg.AgentService, host)
	if err != nil || !registered {
		return oper, err
	}
	body, err := a.nodes.get(ctx, at, "/inspect/bgp", longAnswer)
	if fault.Is(err, fault.Unavailable) {
		oper.Problem = err.Error()
		return oper, nil
	}
	if err != nil {
		return oper, fault.New(fault.KindOf(err), "bgp of host %s: %w", host, err)
	}
	var told *mastercfg.NodeBgp // null
	if err := json.Unmarshal(body, &told); err != nil {
		return oper, fault.New(fault.Internal, "bgp of host %s: answer of node %s: %w", host, at.address, err)
	}
	if told == nil {
		return oper, nil
	}
	if len(told.Peers) > 0 {
		oper.AdminStatus, oper.NeighborStatus = told.Peers[0].State.AdminState, told.Peers[0].State.SessionState
	}
	for _, p := range told.Peers {
		oper.Neighbors = append(oper.Neighbors, contivmodel.BgpNeighborOper{
			Address: p.Config.NeighborAddress, As: strconv.FormatUint(uint64(p.Config.PeerAs), 10),
			AdminStatus: p.State.AdminState, Status: p.State.SessionState, LastError: p.State.LastError, Flapping: p.State.Flapping, NumRoutes: p.State.Routes,
		})
	}
	oper.NumRoutes, oper.Routes, oper.Problem = len(told.Dsts), told.Dsts, told.Problem
	oper.Announced = told.Announced
	return oper, nil
}

// unspoken returns a warning if a BGP speaker that a client has sent is of a node that is not registered, such as
// one whose name is misspelt; otherwise it is empty. It is accepted: nodes may come later.
func (a *API) unspoken(ctx context.Context, sent ...contivmodel.Object) (warning string) {
	var found []string
	for _, o := range sent {
		if b, is := o.(*contivmodel.Bgp); is {
			found = append(found, b.Hostname)
		}
	}
	if len(found) == 0 {
		return ""
	}
	registered, err := a.Agents(ctx)
	found = slices.DeleteFunc(found, func(host string) bool { return slices.Contains(registered, host) })
	if err != nil || len(found) == 0 {
		return ""
	}
	warning = "no node " + found[0] + " is registered"
	if more := len(found) - 1; more > 0 {
		warning += fmt.Sprintf(", and %d more are not", more)
	}
	return warning + ": nobody is this BGP speaker until a netplugin with that host label is"
}
