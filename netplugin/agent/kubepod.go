package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// putPod stores the record of a pod. An unreadable record becomes a pod with an error: without any record the
// pod might be taken for deleted.
func (c *cache) putPod(id string, value []byte, _ int64) error {
	node, uid, _ := strings.Cut(id, "/")
	var pod mastercfg.K8sPod
	if err := json.Unmarshal(value, &pod); err != nil {
		pod = mastercfg.K8sPod{UID: uid, Reason: "UnreadableRecord", Message: err.Error()}
		c.log.WithError(err).WithField("pod", id).Error("the record of a pod cannot be read")
	}
	c.setPodClass(id, podClass{pod.Class, pod.Classed})
	if node == c.host {
		old := c.pods[uid]
		c.pods[uid] = pod
		c.hostPortsChange(old, pod)
		if old.Ingress != pod.Ingress || old.Egress != pod.Egress || old.Profile != pod.Profile {
			for endpoint := range c.tiers.podsOf[id] {
				c.mark(pipeline.KindEndpoint, endpoint)
			}
		}
	}
	return nil
}

func (c *cache) removePod(id string) {
	node, uid, _ := strings.Cut(id, "/")
	c.setPodClass(id, podClass{})
	if node == c.host {
		c.hostPortsChange(c.pods[uid], mastercfg.K8sPod{})
		delete(c.pods, uid)
	}
}

// hostPortsChange marks the node's ports that forward to pods if those of a pod have changed.
func (c *cache) hostPortsChange(before, now mastercfg.K8sPod) {
	if !slices.Equal(before.HostPorts, now.HostPorts) {
		c.mark(pipeline.KindOutside, OutsideID)
	}
}

// attachedChange marks these ports when an endpoint of a pod is added or removed.
func (c *cache) attachedChange(before, now endpoint) {
	if before.pod == now.pod && before.host == now.host {
		return
	}
	for _, uid := range []string{before.pod, now.pod} {
		c.hostPortsChange(c.pods[uid], mastercfg.K8sPod{})
	}
}

// isAttached reports whether a pod has an endpoint on this node. It has one as long as
// ports of the node forward to it. A pod that was refused, has ended, or lost its
// port to another pod has none: the ports that it asks for still belong to the node.
func (c *cache) isAttached(uid string) bool { return len(c.tiers.podsOf[podID(c.host, uid)]) > 0 }

// podID returns the id of a pod: kubelet gives a static pod that it has from a URL the same UID on every node.
func podID(node, uid string) string { return node + "/" + uid }

// podID returns the id of an endpoint's pod; empty: it has none.
func (e endpoint) podID() string {
	if e.pod == "" {
		return ""
	}
	return podID(e.host, e.pod)
}

// Pod waits until netmaster has written the record of a pod of this node, and returns it. An empty uid matches any.
func (a *Agent) Pod(ctx context.Context, namespace, name, uid string) (mastercfg.K8sPod, error) {
	for {
		a.mu.Lock()
		pod, known := a.cache.pod(namespace, name, uid)
		news := a.news
		a.mu.Unlock()
		if known {
			return pod, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return mastercfg.K8sPod{}, explain(ctx.Err(), "pod %s/%s with uid %s: netmaster has not placed it on node %s yet", namespace, name, uid, a.cfg.HostLabel)
		}
	}
}

// Recorded returns the record of a pod of this node. If complete, a missing record means that there is no such
// pod: the store is being followed and was not rewound since this process began. A rewound store lacks records
// of running pods until the API server reports these again.
func (a *Agent) Recorded(uid string) (pod mastercfg.K8sPod, there, complete bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	pod, there = a.cache.pods[uid]
	return pod, there, a.followsStore() && !a.held.wentBack
}

func (c *cache) pod(namespace, name, uid string) (mastercfg.K8sPod, bool) {
	if uid != "" {
		pod, known := c.pods[uid]
		return pod, known && pod.Namespace == namespace && pod.Name == name
	}
	for _, pod := range c.pods {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return mastercfg.K8sPod{}, false
}
