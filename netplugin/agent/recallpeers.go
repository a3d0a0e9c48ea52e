package agent

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// recallLimit limits the time of these requests: programming the node's own endpoints waits for them at a start.
const recallLimit = 10 * time.Second

// recallPeers asks for at most recallHosts hosts one by one, recallAtOnce at a time, and for recallTries
// endpoints of each, because a new one may not be reported yet. For more hosts, or a host without a report
// among these, it reads the records of all endpoints.
const (
	recallHosts  = 64
	recallAtOnce = 8
	recallTries  = 16
)

// recallPeers reads the VTEPs of hosts that have endpoints but no registration from the operational records. Their
// agents are down, but their switches may forward; removing their endpoints at our own start would cut them off.
func (a *Agent) recallPeers(ctx context.Context) {
	a.mu.Lock()
	unknown := a.cache.hostsWithoutVTEP()
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, recallLimit)
	defer cancel()
	if len(unknown) <= recallHosts {
		var asking errgroup.Group
		asking.SetLimit(recallAtOnce)
		for host, endpoints := range unknown {
			asking.Go(func() error { return a.recallPeer(ctx, host, endpoints) })
		}
		if err := asking.Wait(); err != nil {
			a.log.WithError(err).Warn("a host is not registered, and records of its endpoints cannot be read")
		}
		a.mu.Lock()
		unknown = a.cache.hostsWithoutVTEP()
		a.mu.Unlock()
	}
	if len(unknown) == 0 {
		return
	}
	kvs, _, err := a.cfg.DB.List(ctx, mastercfg.OperEndpointPrefix)
	if err != nil {
		a.log.WithError(err).WithField("hosts", slices.Sorted(maps.Keys(unknown))).
			Warn("hosts without a registered VTEP stay unreachable: operational records cannot be read")
		return
	}
	for _, kv := range kvs {
		a.recall(kv.Value, func(host string) bool { return unknown[host] != nil })
	}
}

// recallPeer looks for a host's VTEP in the records of some of its endpoints.
func (a *Agent) recallPeer(ctx context.Context, host string, endpoints []string) error {
	for _, id := range endpoints {
		kv, err := a.cfg.DB.Get(ctx, mastercfg.OperEndpointPrefix+id)
		switch {
		case fault.Is(err, fault.NotFound):
		case err != nil:
			return err
		case a.recall(kv.Value, func(of string) bool { return of == host }):
			return nil
		}
	}
	return nil
}

// recall takes the VTEP from the operational record of a wanted host, and returns whether it has one.
func (a *Agent) recall(value []byte, wanted func(host string) bool) bool {
	var record mastercfg.OperEndpointState
	if json.Unmarshal(value, &record) != nil || !wanted(record.HomingHost) {
		return false
	}
	vtep, err := parseMachine(record.VtepIP)
	if err != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cache.recallPeer(record.HomingHost, vtep)
	return true
}

// agePeerKeys finds out which of contradicting registrations is the oldest. A restarted agent finds its key and
// writes it again: the creation of the key counts, not the last write.
func (a *Agent) agePeerKeys(ctx context.Context) {
	a.mu.Lock()
	contradicted := len(a.cache.peers.refused) > 0
	a.mu.Unlock()
	if !contradicted {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallLimit)
	defer cancel()
	kvs, _, err := a.cfg.DB.List(ctx, peerPrefix)
	if err != nil {
		a.log.WithError(err).Warn("which of contradicting registrations is older is not known, the one that was written first counts")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, kv := range kvs {
		a.cache.settle(a.cache.peers.made(strings.TrimPrefix(kv.Key, peerPrefix), kv.CreateRevision)...)
	}
}

// hostsWithoutVTEP returns the other hosts with endpoints and without a VTEP, with at most recallTries endpoints each.
func (c *cache) hostsWithoutVTEP() map[string][]string {
	hosts := make(map[string][]string)
	for host, endpoints := range c.endpointsOn {
		if host == c.host || c.peers.vtep[host].IsValid() {
			continue
		}
		for id := range endpoints {
			if hosts[host] = append(hosts[host], id); len(hosts[host]) == recallTries {
				break
			}
		}
	}
	return hosts
}
