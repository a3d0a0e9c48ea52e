package agent

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/fault"
)

func serviceValue(ports string) string {
	return `{"id":"shop:blue","servicename":"shop","tenantname":"blue","subnet":"web","ports":[` + ports + `],"selectors":{"app":"web"},"ipaddress":"10.1.0.200"}`
}

// A service combines records that arrive in any order, and follows changes of each of them.
func TestAServiceIsItsRecordItsNetworkAndItsProviders(t *testing.T) {
	const id = "shop:blue"
	n := blueHere(t)
	n.step()
	provider := func(address string) string { return mastercfg.ProviderKey(id, address) }
	n.put(provider("10.1.0.9"), `{}`).expect("a provider of nothing")
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:TCP","53:5353:udp"`)).expect("the service", "+service "+id)
	n.put(provider("10.1.0.3"), `{}`).expect("another provider", "+service "+id)
	vip := netip.MustParseAddr("10.1.0.200")
	want := pipeline.Service{ID: id, VRF: 1, Tag: 1,
		Ports:     []pipeline.ServicePort{{Address: vip, From: pipeline.FromPods, Protocol: 6, Port: 80, Target: 8080}, {Address: vip, From: pipeline.FromPods, Protocol: 17, Port: 53, Target: 5353}},
		Providers: []netip.Addr{netip.MustParseAddr("10.1.0.3"), netip.MustParseAddr("10.1.0.9")}}.
		Numbered(func(uint32) bool { return false })
	key := pipeline.Key{Kind: pipeline.KindService, ID: id}
	if got, err := n.cache.wanted(key); err != nil || !got.Equal(want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	n.put(provider("10.1.0.3"), `{"id":"10.1.0.3"}`).expect("the same again")
	n.del(provider("10.1.0.9")).expect("a provider goes", "+service "+id)

	for mode, want := range map[string]pipeline.Mode{"bridge": pipeline.BridgedProxy, "routing": pipeline.Routed} {
		n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"`+mode+`"}`).put(provider("10.2.0.9"), `{}`).step()
		others := 2 // of another network
		if want.Bridged() {
			others = 1
		}
		if got, err := n.cache.wanted(key); err != nil || got.(pipeline.Service).Mode != want || len(got.(pipeline.Service).Providers) != others {
			t.Errorf("in forwarding mode %s: %+v, %v", mode, got, err)
		}
	}
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing"}`).del(provider("10.2.0.9")).step()
	for _, ports := range []string{`"80:8080"`, `"80:8080:sctp"`, `"0:8080:tcp"`, `"80:65536:tcp"`} {
		n.put(mastercfg.ServiceLBPrefix+id, serviceValue(ports)).step()
		if _, err := n.cache.wanted(key); !fault.Is(err, fault.NotFound) {
			t.Errorf("port %s: %v", ports, err)
		}
	}
	for _, seconds := range []uint16{1, 65535} {
		n.put(mastercfg.ServiceLBPrefix+id, serviceValue(fmt.Sprintf(`"80:8080:tcp"],"affinity":%d,"more":[`, seconds))).step()
		if got, err := n.cache.wanted(key); err != nil || got.(pipeline.Service).Affinity != seconds {
			t.Errorf("affinity of %d seconds: %+v, %v", seconds, got, err)
		}
	}
	for _, seconds := range []int{-1, 65536} {
		n.put(mastercfg.ServiceLBPrefix+id, serviceValue(fmt.Sprintf(`"80:8080:tcp"],"affinity":%d,"more":[`, seconds))).step()
		if _, err := n.cache.wanted(key); !fault.Is(err, fault.NotFound) {
			t.Errorf("affinity of %d seconds: %v", seconds, err)
		}
	}
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:tcp"`)).expect("can be used again", "+service "+id)
	n.del(mastercfg.ServiceLBPrefix+id).expect("the service goes", "-service "+id)
}

// Networks of the other encapsulation are on another bridge: providers in them do not count here.
func TestProvidersAreOfTheEncapsulationOfTheService(t *testing.T) {
	const id = "shop:blue"
	n := blueHere(t)
	n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"routing"}`)
	n.put(mastercfg.ServiceLBPrefix+id, serviceValue(`"80:8080:tcp"`))
	for _, provider := range []string{"10.1.0.3", "10.2.0.9", "10.3.0.9"} { // the last two in networks that are not known yet
		n.put(mastercfg.ProviderKey(id, provider), `{}`)
	}
	n.step()
	network := func(encap, subnet string) string {
		return strings.NewReplacer(`"vxlan"`, `"`+encap+`"`, "10.1.0.", subnet, `"pktTag":1,`, `"pktTag":7,`).Replace(netValue("blue", ""))
	}
	n.put(netKey("vlan.blue"), network("vlan", "10.2.0.")).expect("a network with a provider", "+service "+id)
	n.put(netKey("other.blue"), network("vxlan", "10.3.0."))
	n.step()
	providers := func() string {
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: id})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(o.(pipeline.Service).Providers)
	}
	if got := providers(); got != "[10.1.0.3 10.3.0.9]" {
		t.Errorf("providers %s", got)
	}
	n.del(netKey("vlan.blue")).expect("the network goes", "+service "+id)
}

// Numbers of the switch's groups are derived from names; two services with equal numbers must not get each other's
// providers.
func TestTwoServicesNeverShareAGroup(t *testing.T) {
	number := func(name string) uint32 {
		s := pipeline.Service{ID: name + ":blue", Ports: []pipeline.ServicePort{{Address: netip.MustParseAddr("10.1.0.200"), From: pipeline.FromPods, Protocol: 6, Port: 80}}}
		return s.Numbered(func(uint32) bool { return false }).Ports[0].Group
	}
	first, second := "", ""
	for i, seen := 0, map[uint32]string{}; first == ""; i++ {
		second = fmt.Sprint("s", i)
		first = seen[number(second)]
		seen[number(second)] = second
	}
	n := blueHere(t)
	for _, name := range []string{first, second} {
		n.put(mastercfg.ServiceLBPrefix+name+":blue", serviceValue(`"80:8080:tcp"`)).step()
	}
	group := func(name string) uint32 {
		o, err := n.cache.wanted(pipeline.Key{Kind: pipeline.KindService, ID: name + ":blue"})
		if err != nil {
			t.Fatal(err)
		}
		return o.(pipeline.Service).Ports[0].Group
	}
	if group(first) != number(first) || group(second) == group(first) {
		t.Errorf("%s has group %d, %s has %d", first, group(first), second, group(second))
	}
	kept := group(second)
	n.del(mastercfg.ServiceLBPrefix + first + ":blue").step()
	if group(second) != kept {
		t.Error("a service changes its group because another one has gone")
	}
	n.put(mastercfg.ServiceLBPrefix+first+":blue", serviceValue(`"80:8080:tcp"`)).step()
	if group(first) != number(first) {
		t.Errorf("%s has group %d, which is not what was free", first, group(first))
	}
}
