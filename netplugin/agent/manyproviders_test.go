package agent

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// manyAddress returns the address of the i-th of many providers.
func manyAddress(i int) string { return fmt.Sprintf("10.1.%d.%d", 1+i/250, 1+i%250) }

// manyPorts returns the ports of a service with very many, as in its record.
func manyPorts(number int) string {
	var all []string
	for i := range number {
		all = append(all, fmt.Sprintf(`"%d:8080:TCP"`, 1000+i))
	}
	return strings.Join(all, ",")
}

// A service with more providers than a group of the switch has room for would have no flows. A node uses as many
// as fit, draining ones last; clients that enter by the uplink get some of those on this node.
func TestAServiceWithTooManyProvidersHasSomeOfThem(t *testing.T) {
	const id, all = "shop:blue", 700
	n := newNode(t)
	n.cache.uplink = true
	n.put(mastercfg.GlobalConfigKey, globalValue).put(vrfKey("blue"), `{"vrf":1}`).put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-1"), epValue("web.blue", me, "10.1.0.2")).
		put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP","53:53:UDP"`))
	provides := func(from, to int, value string) {
		for i := from; i < to; i++ {
			n.put(mastercfg.ProviderKey(id, manyAddress(i)), value)
		}
	}
	wanted := func() pipeline.Service {
		t.Helper()
		n.step()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		s := o.(pipeline.Service)
		if _, err := pipeline.New(pipeline.Config{}).For(s, 7); err != nil {
			t.Errorf("%d serve and %d drain: %v", len(s.Providers), len(s.Draining), err)
		}
		return s
	}
	has := func(s pipeline.Service, serving, draining int) {
		t.Helper()
		if len(s.Providers) != serving || len(s.Draining) != draining || !slices.IsSortedFunc(s.Providers, netip.Addr.Compare) {
			t.Errorf("%d serve and %d drain, want %d and %d", len(s.Providers), len(s.Draining), serving, draining)
		}
	}
	provides(0, all-1, `{}`)
	before := wanted()
	most := before.Room(true)
	if most <= pipeline.MaxProviders || most >= all {
		t.Fatalf("room for %d", most)
	}
	has(before, most, 0)
	provides(all-1, all, `{}`)
	after := wanted()
	has(after, most, 0)
	if changed := slices.DeleteFunc(after.Providers, func(a netip.Addr) bool { return slices.Contains(before.Providers, a) }); len(changed) > 1 {
		t.Errorf("one more has changed %v", changed)
	}
	provides(0, all-most+10, `{"Draining":true}`)
	has(wanted(), most-10, 10)
	provides(0, all, `{}`)
	has(wanted(), most, 0)

	for i := range all { // all of them are here, behind the uplink
		n.put(epKey(fmt.Sprint("web.blue-", 2+i)), epValue("web.blue", me, manyAddress(i)))
	}
	n.put(netKey("web.blue"), strings.Replace(netValue("blue", ""), "vxlan", "vlan", 1))
	s := wanted()
	has(s, s.Room(true), 0)
	for _, p := range s.Ports {
		if p.From == pipeline.FromOutside && len(p.Serving) != pipeline.MaxProviders {
			t.Errorf("%d serve who comes in by the uplink", len(p.Serving))
		}
	}
}

// A switch has a bucket for each provider at each port: a service with very many ports must not fill the memory of
// all nodes.
func TestANodeUsesFewerProvidersOfAServiceWithManyPorts(t *testing.T) {
	const id, providers = "shop:blue", 300
	n := blueHere(t)
	for i := range providers {
		n.put(mastercfg.ProviderKey(id, manyAddress(i)), `{}`)
	}
	for ports, want := range map[int]int{10: providers, 400: 100_000 / 400, 1000: 100_000 / 1000} {
		n.put(mastercfg.ServiceLBPrefix+id, serviceValue(manyPorts(ports))).step()
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(o.(pipeline.Service).Providers); got != want {
			t.Errorf("%d ports: %d providers, want %d", ports, got, want)
		}
	}
}

// The same for a node's own providers, which it uses for clients that enter by the uplink.
func TestANodeUsesFewerOfItsOwnProvidersOfAServiceWithManyPorts(t *testing.T) {
	const id, providers, ports = "shop:blue", 300, 1000
	n := newNode(t)
	n.cache.uplink = true
	n.put(mastercfg.GlobalConfigKey, globalValue).put(vrfKey("blue"), `{"vrf":1}`).put(netKey("web.blue"), strings.Replace(netValue("blue", ""), "vxlan", "vlan", 1))
	for i := range providers {
		address := manyAddress(i)
		n.put(epKey(fmt.Sprint("web.blue-", 1+i)), epValue("web.blue", me, address)).put(mastercfg.ProviderKey(id, address), `{}`)
	}
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(manyPorts(ports))).step()
	o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	buckets, announced := 0, 0
	for _, p := range o.(pipeline.Service).Ports {
		if p.From == pipeline.FromOutside {
			announced++
			buckets += len(p.Serving)
		}
	}
	if announced != ports || buckets == 0 || buckets > 100_000 {
		t.Errorf("%d ports for who comes in by the uplink have %d providers", announced, buckets)
	}
}

// Clients that enter by another node may use a provider of this one, which sends its answers back to that node
// only if it has it as a provider.
func TestANodeKnowsItsOwnProvidersOfAServiceWithTooMany(t *testing.T) {
	const id, providers, own = "shop:blue", 700, 40
	n := blueHere(t)
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP"`))
	for i := range providers {
		address := manyAddress(i)
		n.put(mastercfg.ProviderKey(id, address), `{}`)
		if i < own {
			n.put(epKey(fmt.Sprint("web.blue-", 2+i)), epValue("web.blue", me, address))
		}
	}
	n.step()
	o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
	if err != nil {
		t.Fatal(err)
	}
	used := o.(pipeline.Service).Providers
	for i := range own {
		if a := netip.MustParseAddr(fmt.Sprintf("10.1.1.%d", 1+i)); !slices.Contains(used, a) {
			t.Errorf("%s is here, and not among %d", a, len(used))
		}
	}
}

func TestANodeKnowsItsOwnBackendsOfAServiceOfKubernetesWithTooMany(t *testing.T) {
	const backends, own = 600, 40
	n := kubeNode(t)
	n.kubeService(mastercfg.K8sService{Addresses: []netip.Addr{netip.MustParseAddr("10.96.0.7")}, External: []netip.Addr{netip.MustParseAddr("203.0.113.7")},
		Ports: []mastercfg.K8sServicePort{{Name: "http", Protocol: "TCP", Port: 80}}})
	var mine []netip.AddrPort
	for i := range backends {
		at, node := fmt.Sprintf("10.1.%d.%d:8080", 1+i/250, 1+i%250), "node2"
		if i < own {
			node, mine = "node1", append(mine, netip.MustParseAddrPort(at))
		}
		n.backend("http", at, node)
	}
	n.step()
	o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: kubeWeb})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range o.(pipeline.Service).Ports {
		for _, a := range mine {
			if !slices.Contains(p.Serving, a) {
				t.Errorf("%s is here, and not among %d at %s", a, len(p.Serving), p.Address)
			}
		}
	}
}
