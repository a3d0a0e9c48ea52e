package k8s

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// goneEvery is the interval of checks whether the agent of a deleted node still runs.
const goneEvery = 10 * time.Second

// byKubernetes reports whether a host has joined as a node of Kubernetes, so that its membership ends with
// the node object. If a join token limits it to tenants, an operator has added it and has to remove it: a
// machine that is reinstalled under that name stays limited.
func byKubernetes(joined mastercfg.Joined) bool {
	return joined.Token == mastercfg.VouchedToken && len(joined.Tenants) == 0
}

// dismiss removes the join record of a node without an object, so that its certificate becomes invalid and
// another node may have its address, and releases its endpoints, unless it joins again before. While the agent
// runs, the node keeps both: kubelet may create the object again, and the agent would not notice that it has to
// join again. Kubernetes deletes pods of deleted nodes, including the agent's.
func (c *Controller) dismiss(ctx context.Context, name string) (again time.Duration, err error) {
	key := mastercfg.NodePrefix + name
	var seen []byte
	if err := c.ledger.View(func(r ledger.Reader) error {
		if value, there := r.Get(key); there && joinedByKubernetes(value) {
			seen = bytes.Clone(value)
		}
		return nil
	}); err != nil || seen == nil {
		return 0, err
	}
	running, err := c.cfg.Agents(ctx)
	if err != nil || slices.Contains(running, name) {
		return cmp.Or(c.cfg.GoneEvery, goneEvery), err
	}
	removed := false
	_, err = c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		value, _ := tx.Get(key)
		if removed = bytes.Equal(value, seen); !removed { // it has joined again meanwhile
			return nil
		}
		tx.Delete(key)
		return master.NodeRemoved(tx, name, time.Now())
	})
	if err == nil && removed {
		c.cfg.Log.WithField("node", name).Info("kubernetes: the node is gone, and its name and its addresses are free")
	}
	return 0, err
}

func joinedByKubernetes(value []byte) bool {
	var joined mastercfg.Joined
	return json.Unmarshal(value, &joined) == nil && byKubernetes(joined)
}
