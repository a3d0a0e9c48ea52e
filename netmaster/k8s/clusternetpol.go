package k8s

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"

	"github.com/contiv/netplugin/netmaster/classes"
)

// clusterNetworkPolicy translates a ClusterNetworkPolicy. nodes
// returns the addresses of the nodes that a selector matches.
//
// A rule with a part that cannot be understood fails closed, as the API demands: an Accept rule matches
// nothing, any other denies everything. doubts are sentences about such rules. For a subject that cannot be
// understood the policy is nil: it applies to no pod.
func clusterNetworkPolicy(p *v1alpha2.ClusterNetworkPolicy, nodes func(labels.Selector) ([]netip.Prefix, error)) (*classes.Policy, []string) {
	t := clusterTranslation{spec: &p.Spec, nodes: nodes, policy: classes.Policy{
		Tier: clusterTiers[p.Spec.Tier], Priority: int(p.Spec.Priority), In: len(p.Spec.Ingress) > 0, Out: len(p.Spec.Egress) > 0,
	}}
	var err error
	if t.policy.Subject, err = podsAnywhere(p.Spec.Subject.Namespaces, p.Spec.Subject.Pods); err != nil {
		return nil, []string{fmt.Sprintf("subject: %v: the policy applies to no pod", err)}
	}
	for i, r := range p.Spec.Ingress {
		var from []v1alpha2.ClusterNetworkPolicyEgressPeer // includes all fields of an ingress peer
		for _, peer := range r.From {
			from = append(from, v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: peer.Namespaces, Pods: peer.Pods})
		}
		t.rule(fmt.Sprintf("ingress[%d] %s", i, r.Name), false, r.Action, from, r.Protocols)
	}
	for i, r := range p.Spec.Egress {
		t.rule(fmt.Sprintf("egress[%d] %s", i, r.Name), true, r.Action, r.To, r.Protocols)
	}
	return &t.policy, t.doubts
}

// Constants of the API.
var (
	clusterTiers    = map[v1alpha2.Tier]classes.Tier{v1alpha2.AdminTier: classes.First, v1alpha2.BaselineTier: classes.Last}
	clusterVerdicts = map[v1alpha2.ClusterNetworkPolicyRuleAction]classes.Verdict{
		v1alpha2.ClusterNetworkPolicyRuleActionAccept: classes.Accept,
		v1alpha2.ClusterNetworkPolicyRuleActionDeny:   classes.Deny,
		v1alpha2.ClusterNetworkPolicyRuleActionPass:   classes.Pass,
	}
)

// clusterTranslation is a translation in progress.
type clusterTranslation struct {
	spec   *v1alpha2.ClusterNetworkPolicySpec
	nodes  func(labels.Selector) ([]netip.Prefix, error)
	policy classes.Policy
	doubts []string
}

// rule adds a rule. It keeps its place among the rules of its direction even if it cannot be understood.
func (t *clusterTranslation) rule(name string, out bool, action v1alpha2.ClusterNetworkPolicyRuleAction, peers []v1alpha2.ClusterNetworkPolicyEgressPeer, protocols []v1alpha2.ClusterNetworkPolicyProtocol) {
	r, err := t.read(action, peers, protocols)
	if err != nil {
		closed := "it denies everything"
		r = classes.Rule{Verdict: classes.Deny, AnyPeer: true}
		if action == v1alpha2.ClusterNetworkPolicyRuleActionAccept {
			closed = "it matches nothing"
			r = classes.Rule{Verdict: classes.Accept}
		}
		t.doubts = append(t.doubts, fmt.Sprintf("%s: %v: %s", strings.TrimSpace(name), err, closed))
	}
	r.Out = out
	t.policy.Rules = append(t.policy.Rules, r)
}

func (t *clusterTranslation) read(action v1alpha2.ClusterNetworkPolicyRuleAction, peers []v1alpha2.ClusterNetworkPolicyEgressPeer, protocols []v1alpha2.ClusterNetworkPolicyProtocol) (r classes.Rule, err error) {
	if _, known := clusterTiers[t.spec.Tier]; !known {
		return r, fmt.Errorf("tier %q is not known (use Admin or Baseline)", t.spec.Tier)
	}
	var known bool
	if r.Verdict, known = clusterVerdicts[action]; !known {
		return r, fmt.Errorf("action %q is not known (use Accept, Deny or Pass)", action)
	}
	if len(peers) == 0 {
		return r, errors.New("it has no peers (give it some)")
	}
	for i := range peers {
		if err := t.peer(&r, &peers[i]); err != nil {
			return r, fmt.Errorf("peer %d: %w", i, err)
		}
	}
	for i := range protocols {
		port, err := clusterPort(&protocols[i])
		if err != nil {
			return r, fmt.Errorf("protocol %d: %w", i, err)
		}
		if port.Name != "" && slices.ContainsFunc(peers, func(p v1alpha2.ClusterNetworkPolicyEgressPeer) bool {
			return p.Nodes != nil || p.Networks != nil || p.DomainNames != nil
		}) {
			return r, fmt.Errorf("protocol %d: networks, nodes and domains have no port %q (give its number)", i, port.Name)
		}
		r.Ports = append(r.Ports, port)
	}
	return r, nil
}

// peer adds a peer to a rule.
func (t *clusterTranslation) peer(r *classes.Rule, p *v1alpha2.ClusterNetworkPolicyEgressPeer) error {
	switch {
	case p.Nodes != nil:
		which, err := labelSelector(p.Nodes)
		if err != nil {
			return err
		}
		addresses, err := t.nodes(which)
		if err != nil {
			return err
		}
		r.Nets = append(r.Nets, addresses...)
	case len(p.Networks) > 0:
		for _, text := range p.Networks {
			net, err := cidr(string(text))
			if err != nil {
				return err
			}
			r.Nets = append(r.Nets, net)
		}
	case len(p.DomainNames) > 0:
		if r.Verdict != classes.Accept {
			return errors.New("names of domains are only for rules that accept (name networks)")
		}
		for _, name := range p.DomainNames {
			if err := domainName(string(name)); err != nil {
				return err
			}
			r.Names = append(r.Names, string(name))
		}
	default:
		pods, err := podsAnywhere(p.Namespaces, p.Pods)
		if err != nil {
			return err
		}
		r.Peers = append(r.Peers, pods)
	}
	return nil
}

// domainName checks a domain name, which may begin with *.
func domainName(name string) error {
	domain := strings.TrimPrefix(name, "*.")
	if _, ok := dns.IsDomainName(domain); !ok || domain == "" || strings.Contains(domain, "*") {
		return fmt.Errorf("%q is not the name of a domain (write one like example.org or *.example.org)", name)
	}
	return nil
}

// podsAnywhere selects pods of the whole cluster. The API server has
// not validated the selectors, as the kind is a custom resource.
func podsAnywhere(namespaces *metav1.LabelSelector, pods *v1alpha2.NamespacedPod) (s classes.PodSelector, err error) {
	used := []*metav1.LabelSelector{namespaces}
	if namespaces == nil {
		if pods == nil {
			return s, errors.New("neither namespaces nor pods are given, or what is given is not known (give namespaces or pods)")
		}
		used = []*metav1.LabelSelector{&pods.NamespaceSelector, &pods.PodSelector}
		s.Pods = selector(&pods.PodSelector)
	}
	s.Namespaces = selector(used[0])
	for _, one := range used {
		if _, err := labelSelector(one); err != nil {
			return s, err
		}
	}
	return s, nil
}

// labelSelector converts a selector that the API server has not validated.
func labelSelector(s *metav1.LabelSelector) (labels.Selector, error) {
	all, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("%w (use labels in matchLabels, and in matchExpressions In and NotIn with values, Exists and DoesNotExist)", err)
	}
	return all, nil
}

// clusterPort converts a destination port. A port without any known field has fields of a later API version.
func clusterPort(p *v1alpha2.ClusterNetworkPolicyProtocol) (classes.Port, error) {
	var port *v1alpha2.Port
	var protocol corev1.Protocol
	switch {
	case p.DestinationNamedPort != "":
		return classes.Port{Name: p.DestinationNamedPort}, nil
	case p.TCP != nil:
		protocol, port = corev1.ProtocolTCP, p.TCP.DestinationPort
	case p.UDP != nil:
		protocol, port = corev1.ProtocolUDP, p.UDP.DestinationPort
	case p.SCTP != nil:
		protocol, port = corev1.ProtocolSCTP, p.SCTP.DestinationPort
	}
	var first, last int32
	switch {
	case port == nil:
	case port.Range != nil:
		first, last = port.Range.Start, port.Range.End
	default:
		first, last = port.Number, port.Number
	}
	if first < 1 || first > last || last > 65535 {
		return classes.Port{}, errors.New("no port is given, or what is given is not known (give tcp, udp or sctp a destinationPort of 1 to 65535, or destinationNamedPort)")
	}
	return classes.Port{Protocol: protocols[protocol], First: uint16(first), Last: uint16(last)}, nil
}
