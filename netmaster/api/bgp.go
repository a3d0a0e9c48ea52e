package api

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

func createBgp(c *change, b *contivmodel.Bgp) error {
	inFabric, err := master.InFabric(c)
	if err != nil {
		return err
	}
	if inFabric {
		return fault.New(fault.Mode, "not supported in ACI fabric mode")
	}
	if _, err := master.BgpRecord(b).Speaker(); err != nil {
		return err
	}
	if err := master.DeriveBgp(c.Tx, b); err != nil {
		return err
	}
	return c.put(b)
}

// updateBgp replaces everything but the key.
func updateBgp(c *change, stored, wanted *contivmodel.Bgp) error {
	*stored = *wanted
	return createBgp(c, stored)
}

func removeBgp(c *change, b *contivmodel.Bgp) error {
	master.RemoveBgp(c.Tx, b.Hostname)
	master.Drop(c.Tx, b)
	return nil
}

func inspectBgp(v *view, b *contivmodel.Bgp) (any, error) {
	oper, err := v.api.bgpOper(v.ctx, b.Hostname)
	return contivmodel.BgpInspect{Config: *b, Oper: oper}, err
}

// bgpOper asks the node how its BGP fares. A node that is not registered, or
// is no speaker yet, has nothing to tell; that one does not answer is told as its problem.
func (a *API) bgpOper(ctx context.Context, host string) (contivmodel.BgpOper, error) {
	var oper contivmodel.BgpOper
	at, registered, err := a.agentOf(ctx, mastercfg.AgentService, host)
	if err != nil || !registered {
		return oper, err
	}
	body, err := a.nodes.call(ctx, "GET", at, "/inspect/bgp", longAnswer)
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
			AdminStatus: p.State.AdminState, Status: p.State.SessionState, LastError: p.State.LastError, NumRoutes: p.State.Routes,
		})
	}
	oper.NumRoutes, oper.Routes, oper.Problem = len(told.Dsts), told.Dsts, told.Problem
	oper.Announced = told.Announced
	return oper, nil
}
