package netpol

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// Names of the world: pods a, b and c in each of namespaces x, y and z.
var (
	Namespaces = []string{"x", "y", "z"}
	PodNames   = []string{"a", "b", "c"}
)

// Ports and Protocols are served by every pod.
var (
	Ports     = []int{80, 81}
	Protocols = []string{"TCP", "UDP", "SCTP"}
)

// NewWorld returns a world without policies and without addresses. A label has the name of each pod and namespace;
// pods a and b are apps. One port name is different numbers in different pods, one exists only in some pods, one
// is used for all protocols.
func NewWorld() *World {
	w := &World{Namespaces: map[string]map[string]string{}}
	for _, namespace := range Namespaces {
		w.Namespaces[namespace] = map[string]string{"ns": namespace}
		for _, name := range PodNames {
			p := Pod{Namespace: namespace, Name: name, Labels: map[string]string{"pod": name}, Ports: []ContainerPort{
				{"web", "TCP", 80}, {"dns", "UDP", 81}, {"sig", "SCTP", 80}, {"mix-tcp", "TCP", 81}, {"mix-udp", "UDP", 80},
			}}
			switch name {
			case "a":
				p.Labels["app"] = "shop"
				p.Ports = append(p.Ports, ContainerPort{"only-a", "SCTP", 81})
			case "b":
				p.Labels["app"] = "bank"
			case "c":
				p.Ports[0].ContainerPort, p.Ports[3].ContainerPort = 81, 80
			}
			w.Pods = append(w.Pods, p)
		}
	}
	return w
}

// Steps changes the world step by step, and calls visit after each: count times a policy is added, alone or beside
// the previous one. If count is 150 or more, they include all kinds of peers and ports in all directions; the
// others are random. Now and then the labels of a pod or a namespace change.
func (w *World) Steps(random *rand.Rand, count int, visit func(step int)) {
	g := &generator{w, random}
	next := g.kinds()
	next = append(next, make([]Spec, max(0, count-len(next)))...)
	random.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	for i, spec := range next[:count] {
		if spec.PolicyTypes == nil {
			spec = g.spec()
		}
		p := Policy{Metadata{pick(random, Namespaces), fmt.Sprint("p", i%2)}, spec}
		if i%2 == 1 {
			w.Policies = []Policy{w.Policies[len(w.Policies)-1], p}
		} else {
			w.Policies = []Policy{p}
		}
		if i%5 == 4 {
			g.relabel()
		}
		visit(i)
	}
}

type generator struct {
	world  *World
	random *rand.Rand
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

// relabel changes the app of a pod, or the team of a namespace.
func (g *generator) relabel() {
	labels := g.world.Namespaces[pick(g.random, Namespaces)]
	key, values := "team", []string{"red", "blue", ""}
	if g.random.IntN(3) > 0 {
		labels, key, values = g.world.Pods[g.random.IntN(len(g.world.Pods))].Labels, "app", []string{"shop", "bank", ""}
	}
	if labels[key] = pick(g.random, values); labels[key] == "" {
		delete(labels, key)
	}
}

// kinds returns policies of each kind of peers, and of ports.
func (g *generator) kinds() (all []Spec) {
	for _, types := range [][]string{{"Ingress"}, {"Egress"}, {"Ingress", "Egress"}} {
		all = append(all, g.about(types, Selector{}, nil), g.about(types, Selector{}, []rule{{}}))
		for _, peer := range g.peers() {
			all = append(all, g.about(types, Selector{}, []rule{{peers: []Peer{peer}}}))
		}
		for _, port := range ports() {
			all = append(all, g.about(types, Selector{}, []rule{{ports: []Port{port}}}))
		}
	}
	return all
}

// spec returns a random policy.
func (g *generator) spec() Spec {
	types := pick(g.random, [][]string{{"Ingress"}, {"Egress"}, {"Ingress", "Egress"}})
	rules := make([]rule, g.random.IntN(4))
	for i := range rules {
		for range g.random.IntN(4) {
			rules[i].peers = append(rules[i].peers, pick(g.random, g.peers()))
		}
		for range g.random.IntN(4) {
			rules[i].ports = append(rules[i].ports, pick(g.random, ports()))
		}
	}
	return g.about(types, pick(g.random, selectors("pod", "app", PodNames)), rules)
}

// rule is a rule of either direction.
type rule struct {
	peers []Peer
	ports []Port
}

func (g *generator) about(types []string, subjects Selector, rules []rule) Spec {
	s := Spec{PodSelector: subjects, PolicyTypes: types}
	for _, r := range rules {
		if slices.Contains(types, "Ingress") {
			s.Ingress = append(s.Ingress, Ingress{r.peers, r.ports})
		}
		if slices.Contains(types, "Egress") {
			s.Egress = append(s.Egress, Egress{r.peers, r.ports})
		}
	}
	return s
}

// selectors returns selectors with all operators, for a label that all objects have and one that some have.
func selectors(all, some string, values []string) []Selector {
	expression := func(key, operator string, values ...string) Selector {
		return Selector{MatchExpressions: []Expression{{key, operator, values}}}
	}
	return []Selector{
		{}, {MatchLabels: map[string]string{all: values[0]}}, {MatchLabels: map[string]string{all: "nobody"}},
		expression(all, "In", values[1:]...), expression(all, "NotIn", values[1]), expression(some, "Exists"), expression(some, "DoesNotExist"),
		expression(some, "NotIn", "shop", "red"), {MatchLabels: map[string]string{all: values[1]}, MatchExpressions: []Expression{{some, "Exists", nil}}},
	}
}

// peers returns peers of all kinds. Blocks contain addresses of pods, and may contain those of others.
func (g *generator) peers() (all []Peer) {
	pods, namespaces := selectors("pod", "app", PodNames), selectors("ns", "team", Namespaces)
	for i := range pods {
		all = append(all, Peer{PodSelector: &pods[i]}, Peer{NamespaceSelector: &namespaces[i]})
	}
	for range 4 {
		all = append(all, Peer{PodSelector: &pods[g.random.IntN(len(pods))], NamespaceSelector: &namespaces[g.random.IntN(len(namespaces))]})
	}
	for _, v6 := range []bool{false, true} {
		everything := map[bool]string{false: "0.0.0.0/0", true: "::/0"}[v6]
		all = append(all, Peer{IPBlock: &IPBlock{CIDR: everything}})
		one, other := g.host(v6), g.host(v6)
		if !one.IsValid() {
			continue
		}
		wide, _ := one.Addr().Prefix(one.Bits() - 6)
		half, _ := one.Addr().Prefix(one.Bits() - 2)
		all = append(all, Peer{IPBlock: &IPBlock{CIDR: one.String()}},
			Peer{IPBlock: &IPBlock{CIDR: everything, Except: []string{one.String(), other.String()}}},
			Peer{IPBlock: &IPBlock{CIDR: wide.String(), Except: []string{half.String()}}})
	}
	return all
}

// host returns the address of some pod, as a prefix.
func (g *generator) host(v6 bool) netip.Prefix {
	a := pick(g.random, g.world.Pods).Address(v6)
	return netip.PrefixFrom(a, a.BitLen())
}

// ports returns ports of all kinds.
func ports() []Port {
	return []Port{
		{Port: 80}, {Protocol: "TCP", Port: 81}, {Protocol: "UDP", Port: 80}, {Protocol: "SCTP", Port: 81},
		{Protocol: "TCP"}, {Protocol: "UDP"}, {Protocol: "SCTP"},
		{Protocol: "TCP", Port: 1, EndPort: 80}, {Protocol: "UDP", Port: 80, EndPort: 81}, {Protocol: "SCTP", Port: 81, EndPort: 65535}, {Port: 79, EndPort: 79},
		{Port: "web"}, {Protocol: "UDP", Port: "dns"}, {Protocol: "SCTP", Port: "sig"}, {Protocol: "UDP", Port: "web"},
		{Protocol: "TCP", Port: "mix-tcp"}, {Protocol: "SCTP", Port: "only-a"}, {Protocol: "TCP", Port: "nobody"},
	}
}
