package k8s

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// scalerTaint is on nodes that the cluster's autoscaler is about to delete.
const scalerTaint = "ToBeDeletedByClusterAutoscaler"

// nodeReconciler keeps a record of every node, and ends the membership of deleted ones.
func (c *Controller) nodeReconciler() *reconciler {
	nodes := c.informers.Core().V1().Nodes()
	gone := map[string]bool{} // seen without an object once; only used by the one worker
	return &reconciler{
		kind: "node", workers: 1, follows: []followed{{informer: nodes.Informer(), concerns: byName}},
		known: func(r ledger.Reader) (names []string, err error) {
			r.Range(mastercfg.K8sNodePrefix, func(key string, _ []byte) bool {
				names = append(names, strings.TrimPrefix(key, mastercfg.K8sNodePrefix))
				return true
			})
			return names, ledger.ReadEach(r, mastercfg.NodePrefix, func(key string, joined mastercfg.Joined) error {
				if byKubernetes(joined) {
					names = append(names, strings.TrimPrefix(key, mastercfg.NodePrefix))
				}
				return nil
			})
		},
		reconcile: func(ctx context.Context, name string) (time.Duration, error) {
			node, err := nodes.Lister().Get(name)
			if apierrors.IsNotFound(err) {
				if err := c.writeRecord(ctx, mastercfg.K8sNodePrefix+name, nil); err != nil {
					return 0, err
				}
				if !gone[name] { // kubelet recreates a deleted object when it starts
					gone[name] = true
					return cmp.Or(c.cfg.GoneEvery, goneEvery), nil
				}
				again, err := c.dismiss(ctx, name)
				if err == nil && again == 0 {
					delete(gone, name)
				}
				return again, err
			}
			delete(gone, name)
			if err != nil {
				return 0, err
			}
			return 0, c.writeRecord(ctx, mastercfg.K8sNodePrefix+name, nodeRecord(node))
		},
	}
}

func nodeRecord(node *corev1.Node) mastercfg.K8sNode {
	record := mastercfg.K8sNode{Zone: node.Labels[corev1.LabelTopologyZone]}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range node.Status.Addresses {
			if a.Type == kind {
				record.Addresses = append(record.Addresses, addresses([]string{a.Address})...)
			}
		}
		if len(record.Addresses) > 0 {
			break // a node without cluster addresses is known by its others, as kubelet knows pods of the host network
		}
	}
	record.Leaving = node.DeletionTimestamp != nil ||
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == scalerTaint })
	return record
}

// rangesReconciler keeps the record of the service CIDRs, a single key.
func (c *Controller) rangesReconciler() *reconciler {
	const one = "all"
	ranges := c.informers.Networking().V1().ServiceCIDRs().Informer()
	return &reconciler{
		kind: "range of service", workers: 1,
		follows: []followed{{informer: ranges, concerns: func(any) []string { return []string{one} }}},
		known:   func(ledger.Reader) ([]string, error) { return []string{one}, nil },
		reconcile: func(ctx context.Context, _ string) (time.Duration, error) {
			var record mastercfg.K8sServiceRanges
			for _, object := range ranges.GetStore().List() {
				for _, text := range object.(*networkingv1.ServiceCIDR).Spec.CIDRs { // the store has nothing else
					if p, err := netip.ParsePrefix(text); err == nil { // the API server has validated it
						record.Ranges = append(record.Ranges, p.Masked())
					}
				}
			}
			slices.SortFunc(record.Ranges, netip.Prefix.Compare)
			record.Ranges = slices.Compact(record.Ranges)
			return 0, c.writeRecord(ctx, mastercfg.K8sRangesKey, record)
		},
	}
}

// writeRecord writes the record of a key if it differs; nil: it deletes the key.
func (c *Controller) writeRecord(ctx context.Context, key string, record any) error {
	var value []byte
	if record != nil {
		var err error
		if value, err = json.Marshal(record); err != nil {
			return err
		}
	}
	same := false
	if err := c.ledger.View(func(r ledger.Reader) error {
		before, there := r.Get(key)
		same = there == (record != nil) && bytes.Equal(before, value)
		return nil
	}); err != nil || same {
		return err
	}
	_, err := c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		if record == nil {
			tx.Delete(key)
			return nil
		}
		return ledger.Write(tx, key, json.RawMessage(value))
	})
	return err
}
