package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netplugin/nameserver"
	"github.com/contiv/netplugin/test/testkit"
)

// namedNode returns a node with DNS zones and an endpoint of tenant blue.
func namedNode(t *testing.T) (*node, *nameserver.Zones) {
	n, zones := newNode(t), nameserver.NewZones()
	n.planner.names = zones
	n.put(vrfKey("blue"), `{"vrf":1}`).
		put(netKey("web.blue"), netValue("blue", "")).
		put(epKey("web.blue-1"), namedValue(me, "10.1.0.2", "front", "One"))
	n.step()
	return n, zones
}

func namedValue(host, ip, group, container string) string {
	return strings.TrimSuffix(epValue("web.blue", host, ip), "}") +
		fmt.Sprintf(`,"endpointGroupKey":"%s:blue","epCommonName":"/%s"}`, group, container)
}

// names returns a tenant's names: "kind name address", sorted.
func names(zones *nameserver.Zones, tenant string) string {
	var list []string
	for kind, named := range zones.Records()[tenant] {
		for name, who := range named {
			list = append(list, fmt.Sprint(kind, " ", name, " ", strings.Join(who, ",")))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

func TestNamesAreOfWhatIsWantedOfTheTenantsThatAreHere(t *testing.T) {
	n, zones := namedNode(t)
	const one = "commonNames one ipv4:10.1.0.2; endpointGroups front ipv4:10.1.0.2; endpoints 1 ipv4:10.1.0.2"
	const service, provider = mastercfg.ServiceLBPrefix + "shop:blue", mastercfg.ProviderPrefix + "shop:blue/"
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"the first state", func() {}, one},
		{"a tenant that is not here", func() {
			n.put(vrfKey("red"), `{"vrf":2}`).put(netKey("web.red"), netValue("red", "")).put(epKey("web.red-1"), epValue("web.red", "node2", "10.1.0.9"))
		}, one},
		{"an endpoint elsewhere, without a way to it", func() { n.put(epKey("web.blue-2"), namedValue("node2", "10.1.0.3", "front", "")) },
			"commonNames one ipv4:10.1.0.2; endpointGroups front ipv4:10.1.0.2,ipv4:10.1.0.3; endpoints 1 ipv4:10.1.0.2; endpoints 2 ipv4:10.1.0.3"},
		{"another group, and no name", func() { n.put(epKey("web.blue-1"), namedValue(me, "10.1.0.2", "back", "")) },
			"endpointGroups back ipv4:10.1.0.2; endpointGroups front ipv4:10.1.0.3; endpoints 1 ipv4:10.1.0.2; endpoints 2 ipv4:10.1.0.3"},
		{"it goes", func() {
			n.del(epKey("web.blue-2"))
			n.put(epKey("web.blue-1"), namedValue(me, "10.1.0.2", "front", "One"))
		}, one},
		{"a service", func() { n.put(service, serviceValue(`"80:8080:TCP"`)) }, one + "; services shop ipv4:10.1.0.200"},
		{"providers, of whom one drains", func() {
			n.put(provider+"10.1.0.2", `{}`).put(provider+"10.1.0.3", `{"Draining":true}`)
		}, one + "; providers shop ipv4:10.1.0.2; services shop ipv4:10.1.0.200"},
		{"the other one goes", func() { n.del(provider + "10.1.0.2") }, one + "; services shop ipv4:10.1.0.200"},
		{"it goes", func() { n.del(service) }, one},
		{"a record that makes no sense", func() { n.put(epKey("web.blue-1"), `{"netID":"web.blue","homingHost":"`+me+`","ipAddress":"nowhere"}`) }, ""},
	} {
		step.do()
		n.step()
		if got := names(zones, "blue"); got != step.want {
			t.Errorf("%s: %s, want %s", step.what, got, step.want)
		}
		if got := names(zones, "red"); got != "" {
			t.Errorf("%s: of red: %s", step.what, got)
		}
	}
	if tenant, known := zones.TenantOf("web.blue-1"); known {
		t.Errorf("its tenant is %q", tenant)
	}
}

// While a tenant's endpoints on other nodes arrive in portions, no name is denied.
func TestNamesAreDeniedOnceAllAreThere(t *testing.T) {
	c, p := crowded(2*portion), newPlanner()
	p.names = nameserver.NewZones()
	c.apply(epKey("web.blue-1"), []byte(epValue("web.blue", me, "10.1.0.2")), 1)
	for step := 0; ; step++ {
		p.plan(c, portion)
		there := len(p.names.Records()["blue"]["endpoints"])
		if partial := p.names.Partial(); partial != (there < 2*portion+1) {
			t.Errorf("step %d: %d names, partial %v", step, there, partial)
		}
		if len(c.tenants.backlog) == 0 {
			break
		}
	}
}

// In networks bridged into a VLAN, external machines have addresses, too: the router's address is not ours to
// name, an endpoint's is.
func TestOnlyAddressesThatNobodyElseCanHaveAreDenied(t *testing.T) {
	for _, c := range []struct{ encap, mode, want string }{
		{"vlan", "bridge", "REFUSED"}, // there is no server to query
		{"vlan", "routing", "NXDOMAIN"},
		{"vxlan", "bridge", "NXDOMAIN"},
		{"vxlan", "routing", "NXDOMAIN"},
	} {
		n, zones := namedNode(t)
		n.cache.uplink = true
		n.put(netKey("web.blue"), strings.Replace(netValue("blue", ""), "vxlan", c.encap, 1))
		n.step()
		n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"`+c.mode+`"}`) // after its networks
		n.step()
		if got := pointer(t, zones, "1.0.1.10.in-addr.arpa."); got != c.want {
			t.Errorf("%s, %s: the router's is %s, want %s", c.encap, c.mode, got, c.want)
		}
		if got := pointer(t, zones, "2.0.1.10.in-addr.arpa."); got != "one.blue.contiv.internal." {
			t.Errorf("%s, %s: the endpoint's is %s", c.encap, c.mode, got)
		}
	}
}

// pointer returns tenant blue's answer for an address: a name, or the code of an error.
func pointer(t *testing.T, zones *nameserver.Zones, reversed string) string {
	t.Helper()
	packets, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameserver.Server{Zones: zones, Tenant: func(netip.Addr) (string, bool) { return "blue", true }, Log: testkit.Quiet()}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, packets, streams) }()
	client := dns.Client{Timeout: time.Minute}
	reply, _, asked := client.Exchange(new(dns.Msg).SetQuestion(reversed, dns.TypePTR), packets.LocalAddr().String())
	stop()
	if err := errors.Join(asked, <-ended); err != nil {
		t.Fatal(err)
	}
	if len(reply.Answer) == 0 {
		return dns.RcodeToString[reply.Rcode]
	}
	return reply.Answer[0].(*dns.PTR).Ptr
}

// An endpoint's name servers are the gateway if it is ours, otherwise the well-known address, of the IP families
// that it has.
func TestWhoCanAskIsToldWhere(t *testing.T) {
	const six = `,"ipv6SubnetIP":"2001:db8::","ipv6SubnetLen":64,"ipv6Gateway":"2001:db8::1"`
	for _, c := range []struct{ encap, mode, more, own, want string }{
		{"vxlan", "routing", six, `,"ipv6Address":"2001:db8::2"`, "[10.1.0.1 2001:db8::1]"},
		{"vlan", "routing", six, `,"ipv6Address":"2001:db8::2"`, "[10.1.0.1 2001:db8::1]"},
		{"vxlan", "bridge", six, `,"ipv6Address":"2001:db8::2"`, "[169.254.0.1 fd63:6f6e:7469:7600::1]"},
		{"vlan", "bridge", "", "", "[169.254.0.1]"},
	} {
		n := newNode(t)
		n.cache.uplink = true
		n.put(mastercfg.GlobalConfigKey, `{"fwd-mode":"`+c.mode+`"}`)
		n.put(vrfKey("blue"), `{"vrf":1}`).
			put(netKey("web.blue"), strings.Replace(netValue("blue", c.more), "vxlan", c.encap, 1)).
			put(epKey("web.blue-1"), strings.TrimSuffix(epValue("web.blue", me, "10.1.0.2"), "}")+c.own+"}")
		a := &Agent{cfg: Config{HostLabel: me, Names: nameserver.NewZones()}, cache: n.cache}
		at, err := a.servedLocally("web.blue-1")
		if err != nil {
			t.Fatal(c.encap, err)
		}
		if got := fmt.Sprint(at.NameServers); got != c.want || at.Domain != "blue.contiv.internal" {
			t.Errorf("%s, %s: asks %s in domain %q, want %s", c.encap, c.mode, got, at.Domain, c.want)
		}
	}
}
