package k8s

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// Annotations of the API server's copy of a static pod: that it is a copy, and the UID
// that kubelet knows the pod by. Both have the same value, a hash.
const (
	mirrorAnnotation = "kubernetes.io/config.mirror"
	hashAnnotation   = "kubernetes.io/config.hash"
)

func uidOf(pod *corev1.Pod) string {
	if hash := pod.Annotations[hashAnnotation]; isHash(hash) && pod.Annotations[mirrorAnnotation] == hash {
		return hash
	}
	return string(pod.UID)
}

// isHash tells whether a text may be one of kubelet's hashes.
func isHash(text string) bool {
	return text != "" && len(text) <= 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// adopt finds the records that earlier terms have written, and has a worker look at each.
func (c *Controller) adopt() error {
	return c.ledger.View(func(r ledger.Reader) error {
		return ledger.ReadEach(r, mastercfg.K8sPodPrefix, func(key string, record mastercfg.K8sPod) error {
			c.note(record.Pod(), key, true)
			c.queue.Add(record.Pod())
			return nil
		})
	})
}

// note remembers which records a pod has.
func (c *Controller) note(pod, key string, exists bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !exists {
		if delete(c.records[pod], key); len(c.records[pod]) == 0 {
			delete(c.records, pod)
		}
		return
	}
	if c.records[pod] == nil {
		c.records[pod] = map[string]struct{}{}
	}
	c.records[pod][key] = struct{}{}
}

// recorded lists the records of a pod.
func (c *Controller) recorded(pod string) (keys []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.records[pod] {
		keys = append(keys, key)
	}
	return keys
}

// place makes the records of a pod what they should be. refused tells that it belongs nowhere.
func (c *Controller) place(ctx context.Context, name string) (refused bool, err error) {
	pod, namespace, err := c.look(name)
	if err != nil {
		return false, err
	}
	var wanted string // key
	if pod != nil {
		wanted = mastercfg.K8sPodKey(pod.Spec.NodeName, uidOf(pod))
		c.note(name, wanted, true)
	}
	keys := c.recorded(name)
	if len(keys) == 0 {
		return false, nil
	}
	if pod != nil && slices.Equal(keys, []string{wanted}) {
		settled, refused, err := c.settled(wanted, pod, namespace)
		if settled || err != nil {
			return refused, err
		}
	}
	var now, before mastercfg.K8sPod
	_, err = c.ledger.Update(ctx, func(tx *ledger.Tx) error {
		for _, key := range keys {
			if key != wanted && isOf(tx, key, name) {
				tx.Delete(key)
			}
		}
		if pod == nil {
			return nil
		}
		before, err = ledger.Read[mastercfg.K8sPod](tx, wanted)
		switch {
		case err == nil && before.Pod() != name:
			return fmt.Errorf("record %s is of pod %s", wanted, before.Pod()) // whoever says that it has this UID, too
		case err == nil && before.Reason == "":
			now = before // a pod stays where it is while it lives
			return nil
		}
		if now, err = c.record(tx, pod, namespace); err != nil || now == before {
			return err
		}
		return ledger.Write(tx, wanted, now)
	})
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if key != wanted {
			c.note(name, key, false)
		}
	}
	if now.Reason != "" && now != before {
		c.recorder.Eventf(pod, nil, corev1.EventTypeWarning, now.Reason, "Place", "%s", now.Message)
	}
	return now.Reason != "", nil
}

// settled tells whether a pod's record is as it should be already, as it is after most
// events: then the ledger, which others wait for, is left alone.
func (c *Controller) settled(key string, pod *corev1.Pod, namespace *corev1.Namespace) (settled, refused bool, err error) {
	err = c.ledger.View(func(r ledger.Reader) error {
		before, err := ledger.Read[mastercfg.K8sPod](r, key)
		if err != nil || before.Pod() != pod.Namespace+"/"+pod.Name {
			return nil
		}
		now := before
		if before.Reason != "" {
			if now, err = c.record(r, pod, namespace); err != nil {
				return err
			}
		}
		settled, refused = now == before, now.Reason != ""
		return nil
	})
	return settled, refused, err
}

// isOf tells whether a record is of a pod. One that is damaged is nobody else's.
func isOf(r ledger.Reader, key, pod string) bool {
	record, err := ledger.Read[mastercfg.K8sPod](r, key)
	return err != nil || record.Pod() == pod
}

// look finds a pod with its namespace; no pod: it has no place here (any more).
func (c *Controller) look(name string) (*corev1.Pod, *corev1.Namespace, error) {
	namespace, short, err := cache.SplitMetaNamespaceKey(name)
	if err != nil {
		return nil, nil, err
	}
	pod, err := c.pods.Pods(namespace).Get(short)
	if apierrors.IsNotFound(err) || err == nil && (pod.Spec.NodeName == "" || pod.Spec.HostNetwork) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	ns, err := c.namespaces.Get(namespace)
	if err != nil {
		return nil, nil, fmt.Errorf("namespace %s: %w", namespace, err) // it comes by another watch
	}
	return pod, ns, nil
}

// record says where a pod belongs, or why nowhere.
func (c *Controller) record(r ledger.Reader, pod *corev1.Pod, namespace *corev1.Namespace) (mastercfg.K8sPod, error) {
	record := mastercfg.K8sPod{Namespace: pod.Namespace, Name: pod.Name, UID: uidOf(pod)}
	at, err := placement(pod, namespace, c.cfg.Choice, func(tenant, group string) (string, error) {
		return networkOf(r, tenant, group)
	})
	if err == nil {
		err = exists(r, at)
	}
	var refused *refusal
	if errors.As(err, &refused) {
		record.Reason, record.Message = refused.reason, refused.message
		return record, nil
	}
	record.Tenant, record.Network, record.Group = at.tenant, at.network, at.group
	return record, err
}

// networkOf is the network of a group.
func networkOf(r ledger.Reader, tenant, group string) (string, error) {
	g, err := master.Get[contivmodel.EndpointGroup](r, tenant+":"+group,
		refuse("GroupNotFound", "tenant %s has no group %s: netctl group create -t %s NETWORK %s", tenant, group, tenant, group))
	if err != nil {
		return "", err
	}
	return g.NetworkName, nil
}

// exists refuses a tenant or network that is not there.
func exists(r ledger.Reader, at place) error {
	if !master.Exists(r, "tenant", at.tenant) {
		return refuse("TenantNotFound", "there is no tenant %s: netctl tenant create %s", at.tenant, at.tenant)
	}
	if !master.Exists(r, "network", at.tenant+":"+at.network) {
		return refuse("NetworkNotFound", "tenant %s has no network %s: netctl network create -t %s -s SUBNET -g GATEWAY %s",
			at.tenant, at.network, at.tenant, at.network)
	}
	return nil
}
