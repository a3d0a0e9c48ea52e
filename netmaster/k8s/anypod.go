package k8s

import (
	"context"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// followAgents has rules written as ones about any pod while agents know that form, until ctx ends.
func (p *policies) followAgents(ctx context.Context) {
	for {
		if err := p.askAgents(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Log.WithError(err).Warn("kubernetes: it is not known which rules agents know, and those about any pod stay as they are written")
		}
		if pause(ctx, p.reportEvery) != nil {
			return
		}
	}
}

// askAgents finds out whether they know that form, and has rules written anew if that has changed.
func (p *policies) askAgents(ctx context.Context) error {
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
		p.mark(writeAll)
	}
	return nil
}

// mayUseAnyPod tells whether rules are written as ones about any pod: once the agents of all nodes know that form, until there is an
// agent that does not. One of a node that was away meanwhile is newer, or one of before: that one denies more until it is seen.
func mayUseAnyPod(before bool, nodes []*corev1.Node, knows map[string]bool) bool {
	for _, one := range knows {
		if !one {
			return false
		}
	}
	all := len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return !knows[n.Name] })
	return before || all
}

// isAboutAnyPod tells whether a record has a rule of that form. A damaged one is written anew.
func isAboutAnyPod(record []byte) bool {
	var policy mastercfg.K8sPolicy
	return json.Unmarshal(record, &policy) == nil && slices.ContainsFunc(policy.Rules, func(r mastercfg.TierRule) bool { return r.AnyPod })
}
