package k8s

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/contiv/netplugin/netmaster/classes"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/test/testkit"
)

func TestANetworkPolicySaysWhatItsFieldsMean(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "p"}
	app := func(v string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": v}}
	}
	appIs := func(v string) classes.Selector {
		return classes.Selector{{Key: "app", Op: classes.In, Values: []string{v}}}
	}
	udp, sctp, odd := corev1.ProtocolUDP, corev1.ProtocolSCTP, corev1.Protocol("DCCP")
	number, name, end := intstr.FromInt32(80), intstr.FromString("web"), int32(90)
	low, far, huge, zero := int32(79), int32(65536+90), intstr.FromInt32(65536+80), intstr.FromInt32(0)
	net := netip.MustParsePrefix
	var scattered []string
	for i := range classes.MaxNets / 64 {
		scattered = append(scattered, fmt.Sprintf("%x::1/128", i))
	}
	for what, c := range map[string]struct {
		spec   networkingv1.NetworkPolicySpec
		want   classes.Policy
		doubts int
	}{
		"nothing but pods: nobody may come": {networkingv1.NetworkPolicySpec{PodSelector: *app("db")},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop", Pods: appIs("db")}, Tier: classes.Isolating, In: true}, 0},
		"egress alone leaves ingress open": {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Egress"}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, Out: true}, 0},
		"an empty rule allows all; rules of a direction that is not isolated say nothing": {
			networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Ingress"}, Ingress: []networkingv1.NetworkPolicyIngressRule{{}}, Egress: []networkingv1.NetworkPolicyEgressRule{{}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, In: true, Rules: []classes.Rule{{Verdict: classes.Accept, AnyPeer: true}}}, 0},
		"peers": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{PodSelector: app("web")},
			{NamespaceSelector: &metav1.LabelSelector{}},
			{NamespaceSelector: app("x"), PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"b"}}}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "010.0.0.3/30", Except: []string{"10.0.0.0/31"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "nonsense"}},
		}}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, In: true, Rules: []classes.Rule{{Verdict: classes.Accept,
				Peers: []classes.PodSelector{{Namespace: "shop", Pods: appIs("web")}, {}, {Namespaces: appIs("x"), Pods: classes.Selector{{Key: "a", Op: classes.NotIn, Values: []string{"b"}}}}},
				Nets:  []netip.Prefix{net("10.0.0.2/31")}, Excepts: []classes.Except{{Net: net("10.0.0.0/30"), Except: []netip.Prefix{net("10.0.0.0/31")}}}}}}, 1},
		"a peer that is nothing, as one may look that a later version knows, and an operator": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{}, {PodSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Gt", Values: []string{"1"}}}}}}}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, In: true, Rules: []classes.Rule{{Verdict: classes.Accept,
				Peers: []classes.PodSelector{{Namespace: "shop", Pods: classes.Selector{{Key: "a", Op: "Gt", Values: []string{"1"}}}}}}}}, 2},
		"subjects that are not understood are isolated, and others with them": {
			networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Gt", Values: []string{"1"}}}},
				Ingress: []networkingv1.NetworkPolicyIngressRule{{}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop", Pods: appIs("db")}, Tier: classes.Isolating, In: true}, 1},
		"a block of which nothing is left, and one of which nothing is taken": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.0.0.0/8"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "fd00::/8", Except: []string{"10.0.0.0/8", "fe00::/8"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"nonsense"}}}}}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, In: true, Rules: []classes.Rule{{Verdict: classes.Accept, Nets: []netip.Prefix{net("fd00::/8")}}}}, 1},
		"networks of IPv4 that are written as some of IPv6, and what is larger than IPv4": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "::ffff:10.0.0.7/127", Except: []string{"10.0.0.6/32"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/31", Except: []string{"::ffff:10.0.0.0/128"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::ffff:0:0/96", Except: []string{"::ffff:128.0.0.0/97"}}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "::ffff:10.0.0.0/95"}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"::ffff:10.0.0.0/80"}}}}}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, In: true, Rules: []classes.Rule{{Verdict: classes.Accept,
				Nets: []netip.Prefix{net("10.0.0.7/32"), net("10.0.0.1/32"), net("0.0.0.0/1")},
				Excepts: []classes.Except{{Net: net("10.0.0.6/31"), Except: []netip.Prefix{net("10.0.0.6/32")}},
					{Net: net("10.0.0.0/31"), Except: []netip.Prefix{net("10.0.0.0/32")}}, {Net: net("0.0.0.0/0"), Except: []netip.Prefix{net("128.0.0.0/1")}}}}}}, 2},
		"a block beside one with exceptions": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/31", Except: []string{"10.0.0.0/32"}}}, {IPBlock: &networkingv1.IPBlock{CIDR: "10.1.0.0/16"}}}}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, In: true, Rules: []classes.Rule{{Verdict: classes.Accept,
				Nets:    []netip.Prefix{net("10.0.0.1/32"), net("10.1.0.0/16")},
				Excepts: []classes.Except{{Net: net("10.0.0.0/31"), Except: []netip.Prefix{net("10.0.0.0/32")}}, {Net: net("10.1.0.0/16")}}}}}, 0},
		"exceptions that leave too many networks, and a block beside them": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: scattered}}, {IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}}}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, In: true, Rules: []classes.Rule{{Verdict: classes.Accept, Nets: []netip.Prefix{net("10.0.0.0/8")}}}}, 1},
		"a range the wrong way round, and a number that is none": {networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{
			{Port: &number, EndPort: &low}, {Port: &huge}, {Port: &number, EndPort: &far}, {Port: &zero}}}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, In: true, Rules: []classes.Rule{{Verdict: classes.Accept, AnyPeer: true, Ports: []classes.Port{}}}}, 4},
		"ports": {networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{"Egress"}, Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{
			{}, {Port: &number}, {Protocol: &udp, Port: &number, EndPort: &end}, {Protocol: &sctp, Port: &name}, {Protocol: &odd},
		}}}},
			classes.Policy{Subject: classes.PodSelector{Namespace: "shop"}, Tier: classes.Isolating, Out: true, Rules: []classes.Rule{{Out: true, Verdict: classes.Accept, AnyPeer: true, Ports: []classes.Port{
				{Protocol: 6, Last: 65535}, {Protocol: 6, First: 80, Last: 80}, {Protocol: 17, First: 80, Last: 90}, {Protocol: 132, Name: "web"}}}}}, 1},
	} {
		got, doubts := networkPolicy(&networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: c.spec})
		if !reflect.DeepEqual(got, c.want) || len(doubts) != c.doubts {
			t.Errorf("%s:\n%+v, doubts %q; want\n%+v", what, got, doubts, c.want)
		}
	}
}

// A pod in its node's network is the node: no policy selects it, and it is no peer. The same holds for a pod that
// has ended, whose address another one may have.
func TestPoliciesAreAboutPodsThatRunOnANetworkOfTheirOwn(t *testing.T) {
	for name, c := range map[string]struct {
		spec  corev1.PodSpec
		phase corev1.PodPhase
		want  bool
	}{
		"on a node, and not started yet":   {corev1.PodSpec{NodeName: "node1"}, corev1.PodPending, true},
		"on a node":                        {corev1.PodSpec{NodeName: "node1"}, corev1.PodRunning, true},
		"whose node is not heard from":     {corev1.PodSpec{NodeName: "node1"}, corev1.PodUnknown, true},
		"on no node yet":                   {corev1.PodSpec{}, corev1.PodPending, false},
		"on its node's network":            {corev1.PodSpec{NodeName: "node1", HostNetwork: true}, corev1.PodRunning, false},
		"finished":                         {corev1.PodSpec{NodeName: "node1"}, corev1.PodSucceeded, false},
		"failed":                           {corev1.PodSpec{NodeName: "node1"}, corev1.PodFailed, false},
		"finished, on its node's network":  {corev1.PodSpec{NodeName: "node1", HostNetwork: true}, corev1.PodSucceeded, false},
		"on its node's network, not begun": {corev1.PodSpec{NodeName: "node1", HostNetwork: true}, corev1.PodPending, false},
	} {
		if got := isJudged(&corev1.Pod{Spec: c.spec, Status: corev1.PodStatus{Phase: c.phase}}); got != c.want {
			t.Errorf("a pod %s: %v, want %v", name, got, c.want)
		}
	}
}

// wantClasses waits until the pods have the wanted classes: pods with equal texts have the same class, those with
// "" none; and until these policies have rules. All of the pods must have records.
func (w *world) wantClasses(texts map[string]string, policies ...string) {
	w.Helper()
	w.eventually(func() error {
		numbers, got, missing := map[string]uint16{"": 0}, []string{}, maps.Clone(texts)
		return w.ledger.View(func(r ledger.Reader) error {
			err := ledger.ReadEach(r, mastercfg.K8sPodPrefix, func(_ string, p mastercfg.K8sPod) error {
				text, wanted := texts[p.Name]
				if !wanted {
					return nil
				}
				delete(missing, p.Name)
				number, known := numbers[text]
				if !known {
					numbers[text] = p.Class
				}
				if !p.Classed || known && number != p.Class || text != "" && p.Class == 0 {
					return fmt.Errorf("pod %+v is not of class %q, %v", p, text, numbers)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if len(missing) > 0 {
				return fmt.Errorf("no records of the pods %v", missing)
			}
			if distinct := slices.Compact(slices.Sorted(maps.Values(numbers))); len(distinct) != len(numbers) {
				return fmt.Errorf("classes %v", numbers)
			}
			err = ledger.ReadEach(r, mastercfg.K8sPolicyPrefix, func(key string, _ mastercfg.K8sPolicy) error {
				got = append(got, strings.TrimPrefix(key, mastercfg.K8sPolicyPrefix))
				return nil
			})
			if err == nil && !slices.Equal(got, policies) {
				err = fmt.Errorf("rules of %q, want %q", got, policies)
			}
			return err
		})
	})
}

func (w *world) epoch() (number uint32) {
	w.eventually(func() error {
		return w.ledger.View(func(r ledger.Reader) error {
			e, err := ledger.Read[mastercfg.K8sEpoch](r, mastercfg.K8sEpochKey)
			number = e.Number
			return err
		})
	})
	return number
}

func TestPodsGetClassesAndPoliciesRules(t *testing.T) {
	w := newWorld(t)
	stop := w.follow()
	labels := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
	}
	for i, app := range []string{"web", "web", "db", "other"} {
		w.pod(fmt.Sprint(app, i), fmt.Sprint("u", i), "node1", labels(app))
	}
	w.wantClasses(map[string]string{"web0": "", "web1": "", "db2": "", "other3": ""})
	before := w.epoch()
	selects := func(app string) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	}
	web := selects("web")
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: networkingv1.NetworkPolicySpec{
		PodSelector: selects("db"), Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &web}}}}}}
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), policy, metav1.CreateOptions{}))
	w.wantClasses(map[string]string{"web0": "web", "web1": "web", "db2": "db", "other3": ""}, "networkpolicy/shop/db")
	if after := w.epoch(); after == before {
		t.Error("a policy comes, and connections are not judged anew")
	}

	// A pod is added, with an existing class, and another one is relabelled.
	w.pod("web4", "u4", "node2", labels("web"))
	w.wantClasses(map[string]string{"web0": "web", "web4": "web", "db2": "db"}, "networkpolicy/shop/db")
	before = w.epoch()
	pod, err := w.client.CoreV1().Pods("shop").Get(t.Context(), "other3", metav1.GetOptions{})
	w.must(pod, err)
	pod.Labels = map[string]string{"app": "db"}
	w.must(w.client.CoreV1().Pods("shop").Update(t.Context(), pod, metav1.UpdateOptions{}))
	w.wantClasses(map[string]string{"web0": "web", "other3": "db", "db2": "db"}, "networkpolicy/shop/db")
	if after := w.epoch(); after == before {
		t.Error("a pod is of another class, and connections are not judged anew")
	}

	// Another leader writes nothing.
	before = w.epoch()
	state := w.state()
	stop()
	next := w.controller()
	stop = w.run(next)
	w.begun(next)
	w.pod("web5", "u5", "node2", labels("web")) // the last one to be written
	w.wantClasses(map[string]string{"web5": "web", "web1": "web", "db2": "db"}, "networkpolicy/shop/db")
	w.deletePod("web5")
	w.eventually(func() error {
		if now := w.state(); !maps.Equal(now, state) {
			return fmt.Errorf("state %v, want %v", now, state)
		}
		return nil
	})
	if after := w.epoch(); after != before {
		t.Errorf("epoch %d, want %d", after, before)
	}

	// The next leader detects what was deleted while there was none.
	stop()
	w.must(nil, w.client.NetworkingV1().NetworkPolicies("shop").Delete(t.Context(), "db", metav1.DeleteOptions{}))
	w.follow()
	w.wantClasses(map[string]string{"web0": "", "db2": "", "other3": ""})
	if after := w.epoch(); after == before {
		t.Error("a policy goes, and connections are not judged anew")
	}
}

// However long policies take, places of pods are written, and everything with them. Such a pod gets its class once
// it is known.
func TestPodsArePlacedWhilePoliciesAreBusy(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.run(c)
	labelled := func(app string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"app": app} }
	}
	w.pod("web", "u1", "node1", nil)
	w.pod("db", "u3", "node1", labelled("db"))
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}, metav1.CreateOptions{}))
	w.wantClasses(map[string]string{"web": "", "db": "db"}, "networkpolicy/shop/db")
	for uid, late := range map[string]struct {
		app, class string
		anew       bool // other nodes may have evaluated connections with it as with a pod that no policy selects
	}{"u2": {"web", "", false}, "u4": {"db", "db", true}} {
		before := w.epoch()
		c.policies.mu.Lock()
		unlock := sync.OnceFunc(c.policies.mu.Unlock)
		w.Cleanup(unlock)
		w.pod("late", uid, "node1", labelled(late.app))
		w.want(map[string]string{"node1/u1": "default/default-net/", "node1/u3": "default/default-net/", "node1/" + uid: "default/default-net/"})
		unlock()
		w.wantClasses(map[string]string{"web": "", "db": "db", "late": late.class}, "networkpolicy/shop/db")
		if now := w.epoch(); (now != before) != late.anew {
			t.Errorf("a pod of %q: epoch %d after %d; judged anew: want %v", late.app, now, before, late.anew)
		}
		w.deletePod("late")
		w.want(map[string]string{"node1/u1": "default/default-net/", "node1/u3": "default/default-net/"})
		w.wantClasses(map[string]string{"web": "", "db": "db"}, "networkpolicy/shop/db")
	}
}

// A pod gets the class of its own labels when it is placed, and not that of a former pod of its name, which the
// engine still has.
func TestAPodIsNotOfTheClassOfOneThatHadItsName(t *testing.T) {
	w := newWorld(t)
	c := w.controller()
	w.run(c)
	for name, uid := range map[string]string{"db": "u1", "web": "u2"} {
		w.pod(name, uid, "node1", func(p *corev1.Pod) { p.Labels = map[string]string{"app": name} })
	}
	w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}}}, metav1.CreateOptions{}))
	w.wantClasses(map[string]string{"db": "db", "web": ""}, "networkpolicy/shop/db")
	class := func(name string) (number uint16) {
		pod, err := c.policies.pods.Pods("shop").Get(name)
		w.must(pod, err)
		testkit.Eventually(t, time.Minute, "the class of "+name, func() (known bool) {
			number, known = c.policies.classOf(pod)
			return known
		})
		return number
	}
	db, web := class("db"), class("web")
	c.policies.mu.Lock()
	c.policies.engine.SetPod("shop", "db", classes.Pod{Labels: map[string]string{"app": "web"}, Tenant: "default"})
	c.policies.mu.Unlock()
	if got := class("db"); got != db || db == web {
		t.Errorf("it is of class %d, want %d; the other's is %d", got, db, web)
	}
	if number, known := c.policies.classOf(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "u0"}}); known {
		t.Errorf("one that is gone is of class %d", number)
	}
}

// Parts of a policy that are not enforced are reported by an event.
func TestPoliciesThatDoNotDoAllTheySayHaveEvents(t *testing.T) {
	w := newWorld(t)
	w.namespace("foreign", map[string]string{"io.contiv.tenant": "blue"})
	w.must(w.client.CoreV1().Pods("foreign").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u2"}, Spec: corev1.PodSpec{NodeName: "node1"}}, metav1.CreateOptions{}))
	w.pod("db", "u1", "node1", nil)
	foreign := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "any", Operator: metav1.LabelSelectorOpDoesNotExist}}}}
	for name, rules := range map[string][]networkingv1.NetworkPolicyIngressRule{
		"large":    make([]networkingv1.NetworkPolicyIngressRule, classes.MaxRules+1),
		"strange":  {{From: []networkingv1.NetworkPolicyPeer{foreign}}},
		"everyone": {{From: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}}}},
		"odd":      {{From: []networkingv1.NetworkPolicyPeer{{}}}},
	} {
		w.must(w.client.NetworkingV1().NetworkPolicies("shop").Create(t.Context(), &networkingv1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: networkingv1.NetworkPolicySpec{Ingress: rules}}, metav1.CreateOptions{}))
	}
	w.follow()
	for name, reason := range map[string]string{"large": "PolicyTooLarge", "strange": "PeerInOtherTenant", "odd": "PolicyUnsupported"} {
		if n := w.told(name, reason); n != 1 {
			t.Errorf("%d events %s of %s, want 1", n, reason, name)
		}
	}
	list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	w.must(list, err)
	for _, e := range list.Items {
		if e.Regarding.Name == "everyone" {
			t.Errorf("event %s of a policy that lets everyone in: %s", e.Reason, e.Note)
		}
	}
}

// state returns everything that policies have written.
func (w *world) state() map[string]string {
	all := map[string]string{}
	w.must(nil, w.ledger.View(func(r ledger.Reader) error {
		for _, prefix := range []string{mastercfg.K8sPodPrefix, mastercfg.K8sClassPrefix, mastercfg.K8sPolicyPrefix} {
			r.Range(prefix, func(key string, value []byte) bool {
				all[key] = string(value)
				return true
			})
		}
		return nil
	}))
	return all
}

// The fault of an object is reported again for another object with its name, also if the deletion of the first one
// was missed.
func TestAnObjectThatReplacesOneIsToldWhatIsWrongWithIt(t *testing.T) {
	var w warnings
	for i, step := range []struct {
		uid            types.UID
		reason, text   string
		news           bool
		howManyReasons int
	}{
		{"u1", "A", "wrong", true, 1}, {"u1", "A", "wrong", false, 1}, {"u1", "B", "wrong", true, 2},
		{"u2", "A", "wrong", true, 2}, {"u2", "A", "wrong", false, 2}, {"", "A", "wrong", false, 2}, {"u2", "B", "wrong", true, 2},
		{"u2", "A", "", false, 1}, {"u2", "B", "", false, 0}, {"u3", "A", "wrong", true, 1},
	} {
		if news := w.set("networkpolicy/shop/db", step.uid, step.reason, step.text); news != step.news || len(w.troubles()) != step.howManyReasons {
			t.Errorf("step %d: news %v, %v", i, news, w.troubles())
		}
	}
	if w.clear("networkpolicy/shop/db"); len(w.holds) != 0 {
		t.Errorf("left: %v", w.holds)
	}
}
