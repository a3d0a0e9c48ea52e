package k8s

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	netutils "k8s.io/utils/net"

	"github.com/contiv/netplugin/netmaster/classes"
	"github.com/contiv/netplugin/utils/inet"
)

// networkPolicy says what a NetworkPolicy means. What cannot be understood allows nothing, as it
// may be what a later version of the API has; doubts are sentences about it for people.
func networkPolicy(p *networkingv1.NetworkPolicy) (policy classes.Policy, doubts []string) {
	subject := selector(&p.Spec.PodSelector)
	policy = classes.Policy{
		Subject: classes.PodSelector{Namespace: p.Namespace, Pods: slices.DeleteFunc(slices.Clone(subject), isOdd)},
		Tier:    classes.Isolating,
		In:      len(p.Spec.PolicyTypes) == 0, Out: len(p.Spec.PolicyTypes) == 0 && len(p.Spec.Egress) > 0,
	}
	for _, t := range p.Spec.PolicyTypes {
		policy.In = policy.In || t == networkingv1.PolicyTypeIngress
		policy.Out = policy.Out || t == networkingv1.PolicyTypeEgress
	}
	if odd := slices.IndexFunc(subject, isOdd); odd >= 0 { // it isolates all that it may select
		return policy, []string{oddOperator(subject[odd])}
	}
	room := classes.MaxNets
	add := func(out bool, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) {
		r := classes.Rule{Out: out, Verdict: classes.Accept, AnyPeer: len(peers) == 0}
		var blocks []classes.Except
		takes := false // one of them takes something out
		for _, peer := range peers {
			switch {
			case peer.IPBlock != nil:
				nets, taken, err := blockOf(peer.IPBlock, room)
				if err != nil {
					doubts = append(doubts, err.Error())
				}
				r.Nets, room = append(r.Nets, nets...), room-len(nets)
				if !out && len(nets) > 0 { // pods reach nodes at the addresses that policies know
					blocks, takes = append(blocks, taken), takes || len(taken.Except) > 0
				}
			case peer.NamespaceSelector == nil && peer.PodSelector == nil:
				doubts = append(doubts, "a peer is neither pods nor an ipBlock (give it podSelector, namespaceSelector or ipBlock)")
			default:
				pods := podsOf(p.Namespace, peer.NamespaceSelector, peer.PodSelector)
				r.Peers = append(r.Peers, pods)
				for _, requirement := range slices.Concat(pods.Namespaces, pods.Pods) {
					if isOdd(requirement) {
						doubts = append(doubts, oddOperator(requirement))
					}
				}
			}
		}
		if takes { // also those that do not: what one takes out, another one may let in
			r.Excepts = blocks
		}
		for i := range ports {
			if r.Ports == nil {
				r.Ports = []classes.Port{}
			}
			if port, ok := portOf(&ports[i]); ok {
				r.Ports = append(r.Ports, port)
			} else {
				doubts = append(doubts, "port "+ports[i].String()+" has a protocol or a number that is not known (use TCP, UDP or SCTP, and numbers of 1 to 65535, endPort not below port)")
			}
		}
		policy.Rules = append(policy.Rules, r)
	}
	if policy.In {
		for _, r := range p.Spec.Ingress {
			add(false, r.From, r.Ports)
		}
	}
	if policy.Out {
		for _, r := range p.Spec.Egress {
			add(true, r.To, r.Ports)
		}
	}
	return policy, doubts
}

// podsOf are the pods of a peer: those of the policy's namespace if it names no namespaces.
func podsOf(namespace string, namespaces, pods *metav1.LabelSelector) classes.PodSelector {
	s := classes.PodSelector{Namespace: namespace, Pods: selector(pods)}
	if namespaces != nil {
		s.Namespace, s.Namespaces = "", selector(namespaces)
	}
	return s
}

func selector(s *metav1.LabelSelector) (all classes.Selector) {
	if s == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) { // always the same
		all = append(all, classes.Requirement{Key: key, Op: classes.In, Values: []string{s.MatchLabels[key]}})
	}
	for _, r := range s.MatchExpressions {
		all = append(all, classes.Requirement{Key: r.Key, Op: classes.Operator(r.Operator), Values: r.Values})
	}
	return all
}

// isOdd tells whether a requirement has an operator that is not known. Nothing meets it.
func isOdd(r classes.Requirement) bool {
	return !slices.Contains([]classes.Operator{classes.In, classes.NotIn, classes.Exists, classes.DoesNotExist}, r.Op)
}

func oddOperator(r classes.Requirement) string {
	return fmt.Sprintf("operator %s of label %s is not known (use In, NotIn, Exists or DoesNotExist)", r.Op, r.Key)
}

// blockOf is a network without its exceptions, which are most networks at most, and the exceptions.
func blockOf(b *networkingv1.IPBlock, most int) (nets []netip.Prefix, taken classes.Except, err error) {
	net, err := cidr(b.CIDR)
	if err != nil {
		return nil, taken, err
	}
	var except, within []netip.Prefix
	for _, text := range b.Except {
		e, err := cidr(text)
		if err != nil {
			return nil, taken, err
		}
		if except = append(except, e); e.Overlaps(net) { // else it says nothing
			within = append(within, e)
		}
	}
	nets, ok := classes.Without(net, except, most)
	if !ok {
		return nil, taken, fmt.Errorf("with what the %d exceptions of %s leave of it, the networks of the policy are more than %d (use fewer or larger exceptions, or several policies)", len(except), net, classes.MaxNets)
	}
	return nets, classes.Except{Net: net, Except: within}, nil
}

// cidr reads a network. Old objects have bits behind the prefix, leading zeros, and networks of IPv4 that are written as
// some of IPv6 (::ffff:10.0.0.0/104).
func cidr(text string) (netip.Prefix, error) {
	ip, net, err := netutils.ParseCIDRSloppy(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%w (write one like 10.0.0.0/8 or fd00::/8)", err)
	}
	address, _ := netip.AddrFromSlice(net.IP)
	bits, of := net.Mask.Size()
	if of == 128 && ip.To4() != nil {
		if bits -= 96; bits < 0 {
			return netip.Prefix{}, fmt.Errorf("network %s is of IPv4 and has other addresses, too (write it like 10.0.0.0/8)", text)
		}
	}
	return netip.PrefixFrom(address.Unmap(), bits), nil
}

// protocols by their names in Kubernetes.
var protocols = map[corev1.Protocol]uint8{corev1.ProtocolTCP: inet.TCP, corev1.ProtocolUDP: inet.UDP, corev1.ProtocolSCTP: inet.SCTP}

func portOf(p *networkingv1.NetworkPolicyPort) (classes.Port, bool) {
	port := classes.Port{Protocol: protocols[corev1.ProtocolTCP]}
	if p.Protocol != nil {
		port.Protocol = protocols[*p.Protocol]
	}
	switch {
	case p.Port == nil:
		port.Last = 65535
	case p.Port.Type == intstr.String:
		port.Name = p.Port.StrVal
	default:
		first, last := p.Port.IntVal, p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		if first < 1 || first > last || last > 65535 {
			return port, false
		}
		port.First, port.Last = uint16(first), uint16(last)
	}
	return port, port.Protocol != 0
}

// classPod is what classes depend on of a pod.
func classPod(pod *corev1.Pod) classes.Pod {
	p := classes.Pod{Labels: pod.Labels}
	add := func(c corev1.Container) {
		for _, port := range c.Ports {
			protocol := protocols[port.Protocol]
			if port.Protocol == "" {
				protocol = protocols[corev1.ProtocolTCP]
			}
			if port.Name != "" && protocol != 0 {
				p.Ports = append(p.Ports, classes.NamedPort{Name: port.Name, Protocol: protocol, Number: uint16(port.ContainerPort)})
			}
		}
	}
	for _, c := range pod.Spec.Containers {
		add(c)
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	return p
}
