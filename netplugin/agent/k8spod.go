package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// putPod notes a record. One that cannot be read says that there is a pod, which belongs nowhere: the pod of a record that is missed
// may be taken for one that is gone.
func (c *cache) putPod(id string, value []byte, _ int64) error {
	node, uid, _ := strings.Cut(id, "/")
	var pod mastercfg.K8sPod
	if err := json.Unmarshal(value, &pod); err != nil {
		pod = mastercfg.K8sPod{UID: uid, Reason: "UnreadableRecord", Message: err.Error()}
		c.log.WithError(err).WithField("pod", id).Error("the record of a pod cannot be read")
	}
	c.setPodClass(uid, podClass{pod.Class, pod.Classed})
	if node == c.host {
		old := c.pods[uid]
		c.pods[uid] = pod
		c.hostPortsChange(old, pod)
		if old.Ingress != pod.Ingress || old.Egress != pod.Egress || old.Profile != pod.Profile {
			for endpoint := range c.podsOf[uid] {
				c.mark(pipeline.KindEndpoint, endpoint)
			}
		}
	}
	return nil
}

func (c *cache) removePod(id string) {
	node, uid, _ := strings.Cut(id, "/")
	c.setPodClass(uid, podClass{})
	if node == c.host {
		c.hostPortsChange(c.pods[uid], mastercfg.K8sPod{})
		delete(c.pods, uid)
	}
}

// hostPortsChange has the ports of the node looked at that lead into a pod.
func (c *cache) hostPortsChange(before, now mastercfg.K8sPod) {
	if !slices.Equal(before.HostPorts, now.HostPorts) {
		c.mark(pipeline.KindOutside, OutsideID)
	}
}

// attachedChange has them looked at when an endpoint of a pod comes or goes.
func (c *cache) attachedChange(before, now endpoint) {
	if before.pod == now.pod && before.host == now.host {
		return
	}
	for _, uid := range []string{before.pod, now.pod} {
		c.hostPortsChange(c.pods[uid], mastercfg.K8sPod{})
	}
}

// isAttached tells whether a pod has an endpoint on this node, as it has from before ports of the node lead to it until they
// do no more. One that is refused, or has ended, or lost its port to another pod, has none: what it asks for is still the node's.
func (c *cache) isAttached(uid string) bool {
	for id := range c.podsOf[uid] {
		if c.endpoints[id].host == c.host {
			return true
		}
	}
	return false
}

// Pod waits until netmaster has said where a pod of this node belongs. Who does
// not know its UID leaves that empty.
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

// Recorded is what netmaster has written of a pod of this node. complete tells that what it has not written is not there: the store is
// followed, and has not gone back since this process began, which loses records of pods that live until the API server tells of them again.
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
