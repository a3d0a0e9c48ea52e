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

// networkPolicy translates a NetworkPolicy. A part that it does not understand, perhaps of a later API version,
// allows nothing; doubts describe such parts in sentences.
func networkPolicy(p *networkingv1.NetworkPolicy) (policy classes.Policy, doubts []string) {
	subject := selector(&p.Spec.PodSelector)
	policy = classes.Policy{
		Subject: classes.PodSelector{Namespace: p.Namespace, Pods: slices.DeleteFunc(slices.Clone(subject), hasUnknownOperator)},
		Tier:    classes.Isolating,
	}
	policy.In, policy.Out = isolated(&p.Spec)
	if i := slices.IndexFunc(subject, hasUnknownOperator); i >= 0 { // it isolates all pods that it may select
		return policy, []string{unknownOperator(subject[i])}
	}
	t := netpolTranslation{namespace: p.Namespace, room: classes.MaxNets}
	if policy.In {
		for _, r := range p.Spec.Ingress {
			policy.Rules = append(policy.Rules, t.rule(false, r.From, r.Ports))
		}
	}
	if policy.Out {
		for _, r := range p.Spec.Egress {
			policy.Rules = append(policy.Rules, t.rule(true, r.To, r.Ports))
		}
	}
	return policy, t.doubts
}

// isolated returns in which directions a NetworkPolicy isolates its pods.
func isolated(spec *networkingv1.NetworkPolicySpec) (in, out bool) {
	if len(spec.PolicyTypes) == 0 {
		return true, len(spec.Egress) > 0
	}
	return slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeIngress), slices.Contains(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

// netpolTranslation is the shared state of a translation.
type netpolTranslation struct {
	namespace string
	room      int // how many more networks the policy may have
	doubts    []string
}

func (t *netpolTranslation) doubt(sentence string) { t.doubts = append(t.doubts, sentence) }

// rule translates an ingress or egress rule.
func (t *netpolTranslation) rule(out bool, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort) classes.Rule {
	r := classes.Rule{Out: out, Verdict: classes.Accept, AnyPeer: len(peers) == 0}
	var blocks []classes.Except
	for _, peer := range peers {
		switch {
		case peer.IPBlock != nil:
			nets, block := t.block(peer.IPBlock)
			r.Nets = append(r.Nets, nets...)
			if !out && len(nets) > 0 { // pods reach nodes at the addresses that policies know
				blocks = append(blocks, block)
			}
		case peer.NamespaceSelector == nil && peer.PodSelector == nil:
			t.doubt("a peer is neither pods nor an ipBlock (give it podSelector, namespaceSelector or ipBlock)")
		default:
			r.Peers = append(r.Peers, t.pods(peer))
		}
	}
	if slices.ContainsFunc(blocks, func(b classes.Except) bool { return len(b.Except) > 0 }) {
		r.Excepts = blocks // also those without exceptions: one block may allow what another excepts
	}
	r.Ports = t.ports(ports)
	return r
}

// block returns an ipBlock as the networks without its exceptions, and with its exceptions.
func (t *netpolTranslation) block(b *networkingv1.IPBlock) ([]netip.Prefix, classes.Except) {
	nets, block, err := blockOf(b, t.room)
	if err != nil {
		t.doubt(err.Error())
	}
	t.room -= len(nets)
	return nets, block
}

// pods returns the pods of a peer without ipBlock.
func (t *netpolTranslation) pods(peer networkingv1.NetworkPolicyPeer) classes.PodSelector {
	pods := podsOf(t.namespace, peer.NamespaceSelector, peer.PodSelector)
	for _, requirement := range slices.Concat(pods.Namespaces, pods.Pods) {
		if hasUnknownOperator(requirement) {
			t.doubt(unknownOperator(requirement))
		}
	}
	return pods
}

// ports returns the ports of a rule; nil: all, empty: none is understood.
func (t *netpolTranslation) ports(ports []networkingv1.NetworkPolicyPort) []classes.Port {
	if len(ports) == 0 {
		return nil
	}
	all := []classes.Port{}
	for i := range ports {
		if port, ok := portOf(&ports[i]); ok {
			all = append(all, port)
		} else {
			t.doubt("port " + ports[i].String() + " has a protocol or a number that is not known (use TCP, UDP or SCTP, and numbers of 1 to 65535, endPort not below port)")
		}
	}
	return all
}

// podsOf returns the pods of a peer: those of the policy's namespace if it names no namespaces.
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
	for _, key := range slices.Sorted(maps.Keys(s.MatchLabels)) { // in a fixed order
		all = append(all, classes.Requirement{Key: key, Op: classes.In, Values: []string{s.MatchLabels[key]}})
	}
	for _, r := range s.MatchExpressions {
		all = append(all, classes.Requirement{Key: r.Key, Op: classes.Operator(r.Operator), Values: r.Values})
	}
	return all
}

// hasUnknownOperator reports whether a requirement has an unknown operator. Nothing meets it.
func hasUnknownOperator(r classes.Requirement) bool {
	return !slices.Contains([]classes.Operator{classes.In, classes.NotIn, classes.Exists, classes.DoesNotExist}, r.Op)
}

func unknownOperator(r classes.Requirement) string {
	return fmt.Sprintf("operator %s of label %s is not known (use In, NotIn, Exists or DoesNotExist)", r.Op, r.Key)
}

// blockOf returns the network of an ipBlock without its exceptions,
// as at most so many networks, and the exceptions inside it.
func blockOf(b *networkingv1.IPBlock, most int) (nets []netip.Prefix, block classes.Except, err error) {
	net, err := cidr(b.CIDR)
	if err != nil {
		return nil, block, err
	}
	var except, within []netip.Prefix
	for _, text := range b.Except {
		e, err := cidr(text)
		if err != nil {
			return nil, block, err
		}
		if except = append(except, e); e.Overlaps(net) { // otherwise it has no effect
			within = append(within, e)
		}
	}
	nets, ok := classes.Without(net, except, most)
	if !ok {
		return nil, block, fmt.Errorf("with what the %d exceptions of %s leave of it, the networks of the policy are more than %d (use fewer or larger exceptions, or several policies)", len(except), net, classes.MaxNets)
	}
	return nets, classes.Except{Net: net, Except: within}, nil
}

// cidr parses a network. Old objects may have host bits, leading
// zeros, and IPv4 networks written as IPv6 (::ffff:10.0.0.0/104).
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

// protocols are the protocol numbers by their names in Kubernetes.
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

// classPod returns the part of a pod that classes depend on.
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
