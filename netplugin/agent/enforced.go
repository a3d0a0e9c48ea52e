package agent

import (
	"context"
	"encoding/json"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/retry"
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

// enforcedLoop tells netmaster which epoch the switch has, off the path of changes.
func (a *Agent) enforcedLoop(ctx context.Context) error {
	wait := retry.NewPacer(enforcedEvery, 30*time.Second)
	var told uint32
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.enforces:
		}
		now := a.enforced.Load()
		if now == told {
			continue
		}
		if err := a.tellEnforced(ctx, now); err != nil {
			a.log.WithError(err).Debug("the epoch of policies is not told, trying again")
			a.enforces.Ring()
		} else {
			told = now
			wait.Reset()
		}
		wait.Sleep(ctx)
	}
}

func (a *Agent) tellEnforced(ctx context.Context, number uint32) error {
	value, err := json.Marshal(mastercfg.K8sEpoch{Number: number})
	if err != nil {
		return err
	}
	_, _, err = a.cfg.DB.Txn(ctx, objdb.Txn{Puts: []objdb.KV{{Key: mastercfg.K8sEnforcedKey(a.cfg.HostLabel), Value: value}}})
	return err
}
