package agent

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// recallLimit bounds asking: the node's own endpoints wait for it at a start.
const recallLimit = 10 * time.Second

// recallTries is how many endpoints of a host are asked about: one that was just made may not be reported yet.
const recallTries = 16

// recallPeers asks the operational records for the VTEPs of hosts that have
// endpoints but are not registered. Their agents are down; their switches may
// forward, and taking their endpoints away at our own start would cut them off.
func (a *Agent) recallPeers(ctx context.Context) {
	a.mu.Lock()
	unknown := a.cache.hostsWithoutVTEP()
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, recallLimit)
	defer cancel()
	for host, endpoints := range unknown {
		vtep, err := a.reportedVTEP(ctx, host, endpoints)
		if err != nil {
			a.log.WithError(err).WithField("host", host).
				Warn("a host without a registered VTEP stays unreachable: operational records cannot be read")
			continue
		}
		a.mu.Lock()
		if vtep.IsValid() {
			a.cache.recallPeer(host, vtep)
		}
		a.mu.Unlock()
	}
}

// reportedVTEP is the VTEP in the operational record of one of a host's endpoints; invalid if there is none.
func (a *Agent) reportedVTEP(ctx context.Context, host string, endpoints []string) (netip.Addr, error) {
	for _, id := range endpoints {
		kv, err := a.cfg.DB.Get(ctx, mastercfg.OperEndpointPrefix+id)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return netip.Addr{}, err
		}
		var record mastercfg.OperEndpointState
		if json.Unmarshal(kv.Value, &record) != nil || record.HomingHost != host {
			continue
		}
		if vtep, err := netip.ParseAddr(record.VtepIP); err == nil {
			return vtep, nil
		}
	}
	return netip.Addr{}, nil
}

// agePeerKeys asks which of the registrations that contradict each other is the oldest. An agent
// that is restarted finds its key and writes it again: the key's age counts, not that of the write.
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

// hostsWithoutVTEP are other hosts with endpoints that cannot be reached, and recallTries of these.
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
