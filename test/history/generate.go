package history

import (
	"fmt"
	"math/rand/v2"

	"github.com/contiv/netplugin/contivmodel"
)

// generator generates the operations of one client. They depend on the seed, the scale and the client only, never
// on responses, so that a seed always gives the same operations.
type generator struct {
	*rand.Rand
	scale  Scale
	client int
	made   int
	total  int    // of all shares
	within string // the only tenant, temporarily
}

func newGenerator(seed uint64, scale Scale, client int) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(client))), scale: scale, client: client}
	for _, s := range mix {
		g.total += s.weight
	}
	return g
}

// next returns an operation.
func (g *generator) next() Operation {
	g.made++
	if g.made == 1 && g.scale.furnished {
		return g.furnish()
	}
	if g.made == largeAt && g.client < largeClients {
		return g.largeApply()
	}
	at := g.IntN(g.total)
	for _, s := range mix {
		if at -= s.weight; at < 0 {
			return s.make(g)
		}
	}
	return Operation{}
}

// furnish returns an operation that creates a tenant with all networks that do not overlap.
func (g *generator) furnish() Operation {
	tenant := g.tenant()
	op := Operation{Verb: Apply, Members: []Operation{g.post(tenantNamed(tenant), "")}}
	for i := range g.scale.networks {
		s := g.scale.shapes[0]
		op.Members = append(op.Members, g.post(&contivmodel.Network{TenantName: tenant, NetworkName: fmt.Sprintf("n%d", i),
			NwType: "data", Encap: "vxlan", Subnet: fill(s.subnet, i), Gateway: fill(s.gateway, i)}, ""))
	}
	for i := range op.Members {
		op.Members[i].Guarded = false
	}
	return op
}

func (g *generator) name(letter string, n int) string { return fmt.Sprintf("%s%d", letter, g.IntN(n)) }

func (g *generator) group() string   { return g.name("g", groups) }
func (g *generator) policy() string  { return g.name("p", policies) }
func (g *generator) network() string { return g.name("n", g.scale.networks) }

// tenant picks a tenant for an object.
func (g *generator) tenant() string {
	if g.within != "" {
		return g.within
	}
	if g.sometimes(20) {
		return g.name("t", tenants)
	}
	return g.name("t", tenants-1)
}

// home picks a network for a group, a service or an endpoint.
func (g *generator) home() string {
	if g.sometimes(8) {
		return g.network()
	}
	return g.name("n", g.scale.busy)
}

// sometimes returns true once in n times.
func (g *generator) sometimes(n int) bool { return g.IntN(n) == 0 }

// oneOf returns a random item.
func oneOf[T any](g *generator, items []T) T { return items[g.IntN(len(items))] }

// some returns up to n different names.
func (g *generator) some(letter string, set, n int) []string {
	var names []string
	for _, i := range g.Perm(set)[:g.IntN(n+1)] {
		names = append(names, fmt.Sprintf("%s%d", letter, i))
	}
	return names
}

// place returns the number from which a network's subnet is made: usually its own, sometimes another's, so that
// networks overlap.
func (g *generator) place(network string) int {
	if g.sometimes(6) {
		return g.IntN(g.scale.networks)
	}
	var n int
	if _, err := fmt.Sscanf(network, "n%d", &n); err != nil {
		return g.IntN(g.scale.networks)
	}
	return n
}

func fill(format string, place int) string {
	if format == "" {
		return ""
	}
	return fmt.Sprintf(format, place)
}

func (g *generator) post(o contivmodel.Object, wrong string) Operation {
	o.SetKey(o.ModelKey())
	return Operation{Verb: Post, Type: o.ModelType(), Key: o.ModelKey(), Object: o, Wrong: wrong, Guarded: g.sometimes(6)}
}

func (g *generator) delete(typ, key string) Operation {
	return Operation{Verb: Delete, Type: typ, Key: key, Guarded: g.sometimes(6)}
}

func (g *generator) get() Operation {
	tenant := g.tenant()
	targets := []Operation{
		{Type: "tenant", Key: tenant},
		{Type: "network", Key: tenant + ":" + g.network()},
		{Type: "endpointGroup", Key: tenant + ":" + g.group()},
		{Type: "policy", Key: tenant + ":" + g.policy()},
		{Type: "rule", Key: tenant + ":" + g.policy() + ":" + g.name("r", rules)},
		{Type: "serviceLB", Key: tenant + ":" + g.name("s", services)},
	}
	op := oneOf(g, targets)
	op.Verb = Get
	return op
}
