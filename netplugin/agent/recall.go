package agent

import (
	"context"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// recallLimit bounds asking: the node's own endpoints wait for it at a start.
const recallLimit = 10 * time.Second

// recallPeers asks the operational records for the VTEPs of hosts that have
// endpoints but are not registered. Their agents are down; their switches may
// forward, and taking their endpoints away at our own start would cut them off.
func (a *Agent) recallPeers(ctx context.Context) {
	a.mu.Lock()
	unknown := a.cache.hostsWithoutVTEP()
	a.mu.Unlock()
	if len(unknown) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recallLimit)
	defer cancel()
	kvs, _, err := a.cfg.DB.List(ctx, mastercfg.OperEndpointPrefix)
	if err != nil {
		a.log.WithError(err).WithField("hosts", slices.Sorted(maps.Keys(unknown))).
			Warn("hosts without a registered VTEP stay unreachable: operational records cannot be read")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, kv := range kvs {
		var record mastercfg.OperEndpointState
		if json.Unmarshal(kv.Value, &record) != nil || !unknown[record.HomingHost] {
			continue
		}
		if vtep, err := netip.ParseAddr(record.VtepIP); err == nil {
			a.cache.recallPeer(record.HomingHost, vtep)
		}
	}
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

// hostsWithoutVTEP are other hosts with endpoints that cannot be reached.
func (c *cache) hostsWithoutVTEP() map[string]bool {
	hosts := make(map[string]bool)
	for host := range c.endpointsOn {
		if host != c.host && !c.peers.vtep[host].IsValid() {
			hosts[host] = true
		}
	}
	return hosts
}
