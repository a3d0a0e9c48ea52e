package agent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

// enforcedEvery is the minimum interval of reports of the enforced policies.
const enforcedEvery = time.Second

// A report names at most maxRefused policies that are not enforced, with a reason of at most maxReason bytes
// each: it is one record of the store.
const (
	maxRefused = 50
	maxReason  = 400
)

// Pauses before the policies that the switch refuses are checked again: a retry of the driver may succeed
// without a change.
const (
	firstLook = time.Second
	lastLook  = 30 * time.Second
)

// driverEpoch returns the epoch that was last passed to the driver; 0: none.
func (a *Agent) driverEpoch() uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	epoch, _ := a.planner.given[pipeline.Epoch{}.Key()].(pipeline.Epoch)
	return epoch.Number
}

// noteEnforced records the policies that the switch enforces, after a Sync with this result in an epoch. settled is false
// if they are not known, or the switch refuses some: a retry of the driver may change that.
func (a *Agent) noteEnforced(ctx context.Context, epoch uint32, synced error) (settled bool) {
	now := mastercfg.K8sEnforced{Number: epoch}
	if synced != nil {
		var err error
		if now, err = a.enforcement(ctx, epoch); err != nil {
			return false
		}
	}
	if !reflect.DeepEqual(a.enforced.Swap(&now), &now) {
		a.tell.Send()
	}
	return now.Refused == nil
}

// enforcement returns the policies that the switch enforces, and those with refused rules. The epoch is 0 if
// there are no policies. After an error the state is not known.
func (a *Agent) enforcement(ctx context.Context, epoch uint32) (now mastercfg.K8sEnforced, err error) {
	now.Number = epoch
	var rules []pipeline.Key
	a.mu.Lock()
	for key := range a.planner.given {
		if key.Kind == pipeline.KindTierRule {
			rules = append(rules, key)
		}
	}
	a.mu.Unlock()
	slices.SortFunc(rules, func(x, y pipeline.Key) int { return cmp.Compare(x.ID, y.ID) }) // so that the same policies are reported each time
	if err := a.cfg.Driver.Sync(ctx, pipeline.Epoch{}.Key()); err != nil {
		return now, err
	}
	return now, a.findRefused(ctx, rules, &now)
}

// findRefused finds the rules that the switch refuses, by bisection: if some of a list are refused, it checks both halves.
// One refused rule of a policy is enough; the policy's other rules are skipped.
func (a *Agent) findRefused(ctx context.Context, rules []pipeline.Key, found *mastercfg.K8sEnforced) error {
	known := func(rule pipeline.Key) bool { return found.Refused[policyOf(rule)] != "" }
	if found.More || !slices.ContainsFunc(rules, func(rule pipeline.Key) bool { return !known(rule) }) {
		return nil
	}
	err := a.cfg.Driver.Sync(ctx, rules...)
	if err == nil || fault.Is(err, fault.Unavailable) {
		return err
	}
	if half := len(rules) / 2; half > 0 {
		if err := a.findRefused(ctx, rules[:half], found); err != nil {
			return err
		}
		return a.findRefused(ctx, rules[half:], found)
	}
	if len(found.Refused) == maxRefused {
		found.More = true
		return nil
	}
	if found.Refused == nil {
		found.Refused = map[string]string{}
	}
	reason := err.Error()
	found.Refused[policyOf(rules[0])] = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	return nil
}

// policyOf returns the policy of a rule.
func policyOf(rule pipeline.Key) string {
	policy, _, _ := strings.Cut(rule.ID, "#")
	return policy
}

// reportEnforced writes the enforced policies if they differ from the store and the report is due. It returns
// the time until it is due; 0: the store is up to date. A node without policies has no record.
func (r *reporter) reportEnforced(ctx context.Context, enforced mastercfg.K8sEnforced, now time.Time) (time.Duration, error) {
	if r.unsure {
		if err := r.loadEnforced(ctx); err != nil {
			return 0, err
		}
	}
	if enforced.Number == 0 { // the enforced policies are not known: the reported ones are kept
		said := mastercfg.K8sEnforced{}
		_ = json.Unmarshal(r.enforced.value, &said) // keeps the zero value without a valid record
		said.Troubles = enforced.Troubles
		enforced = said
	}
	if enforced.Number == 0 && len(enforced.Troubles) == 0 && r.enforced.value == nil {
		return 0, nil
	}
	value, err := json.Marshal(enforced)
	if err != nil || bytes.Equal(value, r.enforced.value) {
		return 0, err
	}
	if rest := enforcedEvery - now.Sub(r.enforcedAt); rest > 0 {
		return rest, nil
	}
	r.enforcedAt = now
	if err := r.enforced.replace(ctx, r.store, value); err != nil {
		r.unsure = true // the write may or may not have happened
		return 0, err
	}
	return 0, nil
}

// loadEnforced reads the record from the store.
func (r *reporter) loadEnforced(ctx context.Context) error {
	if err := r.enforced.readStored(ctx, r.store); err != nil {
		return err
	}
	r.unsure = false
	return nil
}

// isReregistration reports whether an event registers this node again after its registration was missing:
// netmaster may have removed the node meanwhile, and deleted its reports. The caller holds the lock and has not
// applied the event yet.
func (a *Agent) isReregistration(key string, value []byte) bool {
	id, is := strings.CutPrefix(key, peerPrefix)
	if !is || value == nil {
		return false
	}
	host, _, err := decodePeer(value)
	_, known := a.cache.peers.entries[id]
	return err == nil && host == a.cfg.HostLabel && !known
}
