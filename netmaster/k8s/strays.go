package k8s

import (
	"context"
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// forms report, for the rest of a key below a prefix, and its value, whether a leader can have written them. The
// reconcilers find their records by the objects that the keys name, so a record with another key would stay for
// ever.
var forms = map[string]func(rest string, value []byte) bool{
	mastercfg.K8sPodPrefix: func(rest string, value []byte) bool {
		var p mastercfg.K8sPod
		node, _, _ := strings.Cut(rest, "/")
		return json.Unmarshal(value, &p) == nil && mastercfg.K8sPodKey(node, p.UID) == mastercfg.K8sPodPrefix+rest
	},
	mastercfg.K8sServicePrefix: func(rest string, _ []byte) bool { return parts(rest, 3) != nil },
	mastercfg.K8sBackendPrefix: func(rest string, _ []byte) bool {
		id := parts(rest, 5)
		if id == nil {
			return false
		}
		at, err := netip.ParseAddrPort(id[4])
		return err == nil && at.String() == id[4]
	},
	mastercfg.K8sClassPrefix: func(rest string, _ []byte) bool {
		number, err := strconv.ParseUint(rest, 10, 16)
		return err == nil && strconv.FormatUint(number, 10) == rest
	},
	mastercfg.K8sRefusedPrefix: func(_ string, value []byte) bool {
		return json.Unmarshal(value, &mastercfg.K8sRefused{}) == nil
	},
}

// parts splits a key into count parts; nil: it has another number, or one is empty.
func parts(rest string, count int) []string {
	all := strings.Split(rest, "/")
	if len(all) != count {
		return nil
	}
	for _, p := range all {
		if p == "" {
			return nil
		}
	}
	return all
}

// strayReconciler removes records that no leader can have written.
func (c *Controller) strayReconciler() *reconciler {
	return &reconciler{
		kind: "stray record", workers: 1,
		known: func(r ledger.Reader) (keys []string, err error) {
			for prefix, fits := range forms {
				r.Range(prefix, func(key string, value []byte) bool {
					if !fits(strings.TrimPrefix(key, prefix), value) {
						keys = append(keys, key)
					}
					return true
				})
			}
			return keys, nil
		},
		reconcile: func(ctx context.Context, key string) (time.Duration, error) {
			removed := false
			_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error {
				removed = isStray(tx, key) // it may have been rewritten
				if removed {
					tx.Delete(key)
				}
				return nil
			})
			if removed && err == nil {
				c.cfg.Log.WithField("key", key).Warn("kubernetes: a record that says nothing of an object is removed")
			}
			return 0, err
		},
	}
}

func isStray(r ledger.Reader, key string) bool {
	value, there := r.Get(key)
	for prefix, fits := range forms {
		if rest, below := strings.CutPrefix(key, prefix); below && there {
			return !fits(rest, value)
		}
	}
	return false
}
