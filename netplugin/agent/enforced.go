package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// enforcedEvery is how often a node tells at most up to which epoch it enforces policies.
const enforcedEvery = time.Second

// givenEpoch is the epoch that the driver was given last; 0: none.
func (a *Agent) givenEpoch() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	epoch, _ := a.planner.given[pipeline.Epoch{}.Key()].(pipeline.Epoch)
	return epoch.Number
}

// syncPolicies waits for the epoch and the rules of policies. Where the switch refuses something else, policies are
// enforced all the same.
func (a *Agent) syncPolicies(ctx context.Context) error {
	keys := []pipeline.Key{pipeline.Epoch{}.Key()}
	a.mu.Lock()
	for key := range a.planner.given {
		if key.Kind == pipeline.KindTierRule {
			keys = append(keys, key)
		}
	}
	a.mu.Unlock()
	return a.cfg.Driver.Sync(ctx, keys...)
}

// tellEnforced writes up to which epoch the node enforces policies if the store has it differently and
// it is due, and says how long until it is; 0: the store has it.
func (r *reporter) tellEnforced(ctx context.Context, number uint32, now time.Time) (time.Duration, error) {
	if number == 0 {
		return 0, nil
	}
	value, err := json.Marshal(mastercfg.K8sEpoch{Number: number})
	if err != nil || bytes.Equal(value, r.enforced) {
		return 0, err
	}
	if rest := enforcedEvery - now.Sub(r.enforcedAt); rest > 0 {
		return rest, nil
	}
	r.enforcedAt = now
	if _, _, err := r.store.Txn(ctx, objdb.Txn{Puts: []objdb.KV{{Key: mastercfg.K8sEnforcedKey(r.host), Value: value}}}); err != nil {
		return 0, err
	}
	r.enforced = value
	return 0, nil
}

// loadEnforced reads what the store has of it.
func (r *reporter) loadEnforced(ctx context.Context) error {
	kv, err := r.store.Get(ctx, mastercfg.K8sEnforcedKey(r.host))
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	r.enforced = kv.Value
	return nil
}

// comesBack tells whether an event is the registration of this node, which was gone: netmaster may have given
// the node up, and deleted what it had reported. It is called with the lock, before the event is applied.
func (a *Agent) comesBack(key string, value []byte) bool {
	id, is := strings.CutPrefix(key, peerPrefix)
	if !is || value == nil {
		return false
	}
	host, _, err := decodePeer(value)
	_, known := a.cache.peers.entries[id]
	return err == nil && host == a.cfg.HostLabel && !known
}
