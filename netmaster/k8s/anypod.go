package k8s

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// followAgents reads, until ctx ends, which agents support rules about any pod (TierRule.AnyPod).
func (p *policies) followAgents(ctx context.Context) {
	for {
		if err := p.readAgents(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.WithError(err).Warn("kubernetes: it is not known which rules agents know, and those about any pod stay as they are written")
		}
		if pause(ctx, p.reportEvery) != nil {
			return
		}
	}
}

// readAgents reads whether all agents support rules about any
// pod. If that has changed, all policies are written again.
func (p *policies) readAgents(ctx context.Context) error {
	knows, err := p.cfg.KnowAnyPod(ctx)
	if err != nil {
		return err
	}
	nodes, err := p.nodes.List(labels.Everything())
	if err != nil {
		return err
	}
	p.mu.Lock()
	before := p.anyPod
	p.anyPod = mayUseAnyPod(before, nodes, knows)
	p.engine.UseAnyPod(p.anyPod)
	changed := p.anyPod != before
	p.mu.Unlock()
	if changed {
		p.enqueue(writeAll)
	}
	return nil
}

// mayUseAnyPod reports whether to write rules about any pod: once the agents of all nodes support them, until an
// agent without support registers. If a node that was down meanwhile returns with such an agent, its policies
// deny too much until it has registered.
func mayUseAnyPod(before bool, nodes []*corev1.Node, knows map[string]bool) bool {
	for _, one := range knows {
		if !one {
			return false
		}
	}
	all := len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return !knows[n.Name] })
	return before || all
}

// isAboutAnyPod reports whether the record of a policy has a rule
// about any pod; false for a damaged record, which is written again.
func isAboutAnyPod(record []byte) bool {
	var policy mastercfg.K8sPolicy
	return json.Unmarshal(record, &policy) == nil && slices.ContainsFunc(policy.Rules, func(r mastercfg.TierRule) bool { return r.AnyPod })
}
