package classes

import (
	"fmt"
	"strconv"
	"testing"
)

// crowd is an engine that knows 10,000 pods in 200 namespaces and 2,000 policies.
func crowd() *Engine {
	e := New()
	for n := range 200 {
		namespace := fmt.Sprintf("space%d", n)
		e.SetNamespace(namespace, map[string]string{"name": namespace})
		for a := range 10 {
			e.SetPolicy(fmt.Sprintf("%s/app%d", namespace, a), crowdPolicy(n, a))
		}
	}
	for n := range 200 {
		for i := range 50 {
			e.SetPod(fmt.Sprintf("space%d", n), fmt.Sprintf("pod%d", i), crowdPod(i%10))
		}
	}
	e.Written(e.Take())
	return e
}

// crowdPolicy lets pods of an app be reached by those of two others, and by another namespace.
func crowdPolicy(n, app int) Policy {
	namespace := fmt.Sprintf("space%d", n)
	own := func(app int) PodSelector {
		return PodSelector{Namespace: namespace, Pods: Selector{{Key: "app", Op: In, Values: []string{fmt.Sprintf("app%d", app%10)}}}}
	}
	other := PodSelector{Namespaces: Selector{{Key: "name", Op: In, Values: []string{fmt.Sprintf("space%d", (n+1)%200)}}}}
	return Policy{Subject: own(app), Tier: Isolating, In: true,
		Rules: []Rule{{Verdict: Accept, Peers: []PodSelector{other, own(app + 1), own(app + 2)}, Ports: []Port{{Protocol: 6, First: 8080, Last: 8080}}}}}
}

func crowdPod(app int) Pod {
	return Pod{Labels: map[string]string{"app": fmt.Sprintf("app%d", app), "hash": "5d4f8c7b9d"}}
}

// BenchmarkCold is a leader's start: it receives everything.
func BenchmarkCold(b *testing.B) {
	for b.Loop() {
		crowd()
	}
}

// BenchmarkLabel is a pod that becomes of another app.
func BenchmarkLabel(b *testing.B) {
	e, i := crowd(), 0
	for b.Loop() {
		i++
		e.SetPod("space7", "pod3", crowdPod(i%10))
		e.Written(e.Take())
	}
}

// BenchmarkTenants is the same where pods are of two tenants; one that changes nothing that is written.
func BenchmarkTenants(b *testing.B) {
	e, i := crowd(), 0
	red := crowdPod(0)
	red.Tenant = "red"
	e.SetPod("space8", "pod0", red)
	for b.Loop() {
		i++
		blue := crowdPod(3)
		blue.Tenant = "blue"
		blue.Labels["hash"] = strconv.Itoa(i)
		e.SetPod("space7", "pod3", blue)
		e.Written(e.Take())
	}
}

// BenchmarkPolicy adds a policy with a selector that no other policy has.
func BenchmarkPolicy(b *testing.B) {
	e := crowd()
	p := crowdPolicy(7, 3)
	p.Rules[0].Peers = []PodSelector{{Namespace: "space7", Pods: Selector{{Key: "hash", Op: Exists}}}}
	for b.Loop() {
		e.SetPolicy("space7/new", p)
		e.Written(e.Take())
		e.RemovePolicy("space7/new")
		e.Written(e.Take())
	}
}

// BenchmarkWidePolicy is one about all pods of the cluster.
func BenchmarkWidePolicy(b *testing.B) {
	e := crowd()
	p := crowdPolicy(7, 3)
	p.Rules[0].Peers = []PodSelector{{Pods: Selector{{Key: "hash", Op: Exists}}}}
	for b.Loop() {
		e.SetPolicy("space7/new", p)
		e.Written(e.Take())
		e.RemovePolicy("space7/new")
		e.Written(e.Take())
	}
}

// BenchmarkNamespace is a namespace that gets another label.
func BenchmarkNamespace(b *testing.B) {
	e, i := crowd(), 0
	for b.Loop() {
		i++
		e.SetNamespace("space7", map[string]string{"name": fmt.Sprintf("space%d", i%2)})
		e.Written(e.Take())
	}
}
