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

// goneEvery is the time between questions whether the agent of a node that is gone still runs.
const goneEvery = 10 * time.Second

// ofItsNode tells whether a host has joined because Kubernetes has a node of its name, and for no longer. Whoever has limited
// it to tenants by a token has done so by hand, and ends it by hand: a machine that is set up
// anew under that name stays limited.
func ofItsNode(joined mastercfg.Joined) bool {
	return joined.Token == mastercfg.VouchedToken && len(joined.Tenants) == 0
}

// dismiss frees the endpoints of a node without an object, and removes what it has joined as because of it, so that its certificate counts no more
// and another one may have its address. While the agent runs the node keeps both: kubelet may make the object anew, and the agent would not
// notice that it has to join again. Kubernetes ends pods of nodes that are gone, the agent's among them.
func (c *Controller) dismiss(ctx context.Context, name string) (again time.Duration, err error) {
	key := mastercfg.NodePrefix + name
	var seen []byte
	if err := c.ledger.View(func(r ledger.Reader) error {
		value, _ := r.Get(key)
		seen = bytes.Clone(value)
		return nil
	}); err != nil {
		return 0, err
	}
	running, err := c.cfg.Agents(ctx)
	if err != nil || slices.Contains(running, name) {
		return cmp.Or(c.cfg.GoneEvery, goneEvery), err
	}
	_, err = c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		value, _ := tx.Get(key)
		if !bytes.Equal(value, seen) { // it has joined meanwhile
			return nil
		}
		if isOfItsNode(value) {
			tx.Delete(key)
		}
		return master.NodeRemoved(tx, name, time.Now())
	})
	if err == nil {
		c.cfg.Log.WithField("node", name).Info("kubernetes: the node is gone, and its addresses are free")
	}
	return 0, err
}

func isOfItsNode(value []byte) bool {
	var joined mastercfg.Joined
	return json.Unmarshal(value, &joined) == nil && ofItsNode(joined)
}
