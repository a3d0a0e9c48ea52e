package nameserver

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// example are two tenants with the same names and addresses.
var example = []any{
	Network{"web.blue", "blue", [2]netip.Prefix{netip.MustParsePrefix("10.1.1.0/24"), netip.MustParsePrefix("fd00:1::/64")}, false},
	Network{"db.blue", "blue", [2]netip.Prefix{netip.MustParsePrefix("10.1.2.0/24")}, false},
	Network{"web.red", "red", [2]netip.Prefix{netip.MustParsePrefix("10.1.1.0/24")}, false},

	Endpoint{ID: "web.blue-c1", Tenant: "blue", Runtime: "c1", Group: "Front", Container: "Web1", IPv4: addr("10.1.1.1"), IPv6: addr("fd00:1::1")},
	Endpoint{ID: "web.blue-c2", Tenant: "blue", Runtime: "c2", Group: "Front", Container: "a.b", IPv4: addr("10.1.1.2")},
	Endpoint{ID: "db.blue-c3", Tenant: "blue", Runtime: "c3", Container: "shop", IPv4: addr("10.1.2.1")},
	Endpoint{ID: "web.red-c1", Tenant: "red", Runtime: "c1", Group: "Front", Container: "web1", IPv4: addr("10.1.1.9")},
	Endpoint{ID: "web.red-c9", Tenant: "red", Runtime: "c9", Container: "secret", IPv4: addr("10.1.1.77")},

	Service{"Shop:blue", "blue", "Shop", addr("10.1.2.200"), netip.Addr{}, []Port{{"tcp", 80, 8080}, {"udp", 53, 5353}}, []netip.Addr{addr("10.1.1.1"), addr("10.1.1.2"), addr("10.1.1.99")}},
	Service{"new:blue", "blue", "new", netip.Addr{}, netip.Addr{}, []Port{{"tcp", 80, 80}}, nil},
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// set enters an object.
func (z *Zones) set(o any) {
	switch o := o.(type) {
	case Network:
		z.SetNetwork(o)
	case Endpoint:
		z.SetEndpoint(o)
	case Service:
		z.SetService(o)
	}
}

// remove removes the object with an id.
func (z *Zones) remove(id string) {
	z.RemoveNetwork(id)
	z.RemoveEndpoint(id)
	z.RemoveService(id)
}

func exampleZones(t testing.TB) *Zones {
	t.Helper()
	z := NewZones()
	for _, i := range rand.Perm(len(example)) { // in any order
		z.set(example[i])
	}
	return z
}

// ask returns a tenant's answer: the code if it is an error, and else the data of the records in alphabetical
// order; "forwarded" if an upstream has to answer.
func ask(z *Zones, tenant, name string, kind uint16) string {
	reply := new(dns.Msg).SetReply(new(dns.Msg).SetQuestion(name, kind))
	switch z.answer(tenant, reply) {
	case forwarded:
		return "forwarded"
	case unknown:
		return "unknown"
	}
	var data []string
	for _, r := range reply.Answer {
		data = append(data, strings.TrimPrefix(r.String(), r.Header().String()))
	}
	slices.Sort(data)
	if reply.Rcode != dns.RcodeSuccess {
		data = append(data, dns.RcodeToString[reply.Rcode])
	}
	if (len(reply.Answer) == 0) != (len(reply.Ns) == 1) {
		return fmt.Sprintf("%d answers and %d authorities", len(reply.Answer), len(reply.Ns))
	}
	return strings.Join(data, " ")
}

func TestATenantIsAnsweredFromItsOwnNames(t *testing.T) {
	z := exampleZones(t)
	for _, c := range []struct {
		tenant, name string
		kind         uint16
		want         string
	}{
		{"blue", "front.", dns.TypeA, "10.1.1.1 10.1.1.2"},
		{"blue", "FRONT.blue.contiv.internal.", dns.TypeA, "10.1.1.1 10.1.1.2"},
		{"blue", "front.", dns.TypeAAAA, "fd00:1::1"},
		{"blue", "front.", dns.TypeANY, "10.1.1.1 10.1.1.2 fd00:1::1"},
		{"blue", "front.", dns.TypeMX, ""}, // there is such a name
		{"blue", "web1.", dns.TypeA, "10.1.1.1"},
		{"blue", "c3.Blue.Contiv.Internal.", dns.TypeA, "10.1.2.1"},
		{"blue", "a.b.", dns.TypeA, "10.1.1.2"}, // names may have dots
		{"blue", "shop.", dns.TypeA, "10.1.2.200"},
		{"blue", "new.", dns.TypeA, ""},
		{"blue", "_80._tcp.shop.blue.contiv.internal.", dns.TypeSRV, "0 0 80 shop.blue.contiv.internal."},
		{"blue", "_udp.shop.", dns.TypeSRV, "0 0 53 shop.blue.contiv.internal."},
		{"blue", "_81._tcp.shop.blue.contiv.internal.", dns.TypeSRV, "NXDOMAIN"},
		{"blue", "_80._tcp.shop.blue.contiv.internal.", dns.TypeA, ""},
		{"blue", "1.1.1.10.in-addr.arpa.", dns.TypePTR, "web1.blue.contiv.internal."},
		{"blue", "2.1.1.10.in-addr.arpa.", dns.TypePTR, "c2.blue.contiv.internal."}, // a.b is no label
		{"blue", "200.2.1.10.in-addr.arpa.", dns.TypePTR, "shop.blue.contiv.internal."},
		{"blue", reverse("fd00:1::1"), dns.TypePTR, "web1.blue.contiv.internal."},
		{"blue", "3.1.1.10.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},
		{"blue", "1.1.168.192.in-addr.arpa.", dns.TypePTR, "forwarded"},
		{"blue", "nobody.", dns.TypeA, "NXDOMAIN"},
		{"blue", "contiv.internal.", dns.TypeNS, ""},
		{"blue", "blue.contiv.internal.", dns.TypeNS, ""},
		{"blue", "example.org.", dns.TypeA, "forwarded"},
		{"blue", "contiv.internal.example.org.", dns.TypeA, "forwarded"},
		{"blue", ".", dns.TypeNS, "forwarded"},
		{"blue", "_80._tcp.example.org.", dns.TypeSRV, "forwarded"},

		// Providers: by the name of their container, or by their address; only below the domain.
		{"blue", "providers.shop.blue.contiv.internal.", dns.TypeA, "10.1.1.1 10.1.1.2 10.1.1.99"},
		{"blue", "Web1.Shop.blue.contiv.internal.", dns.TypeA, "10.1.1.1"},
		{"blue", "c2.shop.blue.contiv.internal.", dns.TypeA, "10.1.1.2"},
		{"blue", "10-1-1-99.shop.blue.contiv.internal.", dns.TypeA, "10.1.1.99"},
		{"blue", "web1.shop.blue.contiv.internal.", dns.TypeAAAA, ""},
		{"blue", "c3.shop.blue.contiv.internal.", dns.TypeA, "NXDOMAIN"}, // serves nobody
		{"blue", "web1.shop.", dns.TypeA, "forwarded"},
		{"blue", "_80._tcp.providers.shop.", dns.TypeSRV, "forwarded"},
		{"blue", "_80._tcp.providers.shop.blue.contiv.internal.", dns.TypeSRV,
			"0 0 8080 10-1-1-99.shop.blue.contiv.internal. 0 0 8080 c2.shop.blue.contiv.internal. 0 0 8080 web1.shop.blue.contiv.internal."},
		{"blue", "_53._udp.web1.shop.blue.contiv.internal.", dns.TypeSRV, "0 0 5353 web1.shop.blue.contiv.internal."},
		{"blue", "_81._tcp.providers.shop.blue.contiv.internal.", dns.TypeSRV, "NXDOMAIN"},
		{"blue", "providers.new.blue.contiv.internal.", dns.TypeA, ""}, // nobody yet
		{"blue", "_80._tcp.providers.new.blue.contiv.internal.", dns.TypeSRV, ""},
		{"blue", "providers.front.blue.contiv.internal.", dns.TypeA, "NXDOMAIN"},
		{"red", "providers.shop.blue.contiv.internal.", dns.TypeA, "NXDOMAIN"},
		{"red", "providers.shop.red.contiv.internal.", dns.TypeA, "NXDOMAIN"},

		// Nothing of another tenant, not even its existence.
		{"red", "front.", dns.TypeA, "10.1.1.9"},
		{"red", "shop.", dns.TypeA, "NXDOMAIN"},
		{"red", "web1.blue.contiv.internal.", dns.TypeA, "NXDOMAIN"},
		{"red", "_80._tcp.shop.blue.contiv.internal.", dns.TypeSRV, "NXDOMAIN"},
		{"blue", "secret.", dns.TypeA, "NXDOMAIN"},
		{"blue", "secret.red.contiv.internal.", dns.TypeA, "NXDOMAIN"},
		{"blue", "77.1.1.10.in-addr.arpa.", dns.TypePTR, "NXDOMAIN"},
		{"green", "front.", dns.TypeA, "NXDOMAIN"},
		{"green", "1.1.1.10.in-addr.arpa.", dns.TypePTR, "forwarded"},
	} {
		if got := ask(z, c.tenant, c.name, c.kind); got != c.want {
			t.Errorf("%s asks for %s %s: %q, want %q", c.tenant, c.name, dns.TypeToString[c.kind], got, c.want)
		}
	}
}

// In a network shared with machines outside, an address that is none of the tenant's may be theirs.
func TestAddressesOfOthersInASharedNetworkAreNotDenied(t *testing.T) {
	z := exampleZones(t)
	shared := Network{ID: "lan.blue", Tenant: "blue", Shared: true,
		Subnets: [2]netip.Prefix{netip.MustParsePrefix("10.1.7.0/24"), netip.MustParsePrefix("fd00:7::/64")}}
	z.set(shared)
	z.set(Endpoint{ID: "lan.blue-c7", Tenant: "blue", Runtime: "c7", Container: "till", IPv4: addr("10.1.7.7"), IPv6: addr("fd00:7::7")})
	z.set(Endpoint{ID: "lan.blue-c8", Tenant: "blue", Runtime: "a.b", IPv4: addr("10.1.7.8")})
	z.set(Service{ID: "desk:blue", Tenant: "blue", Name: "desk", Address: addr("10.1.7.200")})
	expect := func(address, want string) {
		t.Helper()
		if got := ask(z, "blue", reverse(address), dns.TypePTR); got != want {
			t.Errorf("%s is %q, want %q", address, got, want)
		}
	}
	for _, partial := range []bool{false, true} {
		z.SetPartial(partial)
		others := map[bool]string{false: "forwarded", true: "unknown"}[partial] // it may be of an endpoint that is to come
		expect("10.1.7.1", others)
		expect("fd00:7::1", others)
		expect("10.1.7.7", "till.blue.contiv.internal.")
		expect("fd00:7::7", "till.blue.contiv.internal.")
		expect("10.1.7.200", "desk.blue.contiv.internal.")
		expect("10.1.8.1", "forwarded")
	}
	z.SetPartial(false)
	expect("10.1.7.8", "NXDOMAIN") // ours, and its name is no label
	expect("10.1.1.3", "NXDOMAIN") // of the network beside it
	shared.Shared = false
	z.set(shared)
	expect("10.1.7.1", "NXDOMAIN")
	z.remove("lan.blue")
	expect("10.1.7.1", "forwarded")
}

func reverse(a string) string {
	name, err := dns.ReverseAddr(a)
	if err != nil {
		return err.Error()
	}
	return name
}

func TestNamesComeAndGoWithTheirObjects(t *testing.T) {
	z := exampleZones(t)
	endpoint := func(id, group, address string) Endpoint {
		return Endpoint{ID: id, Tenant: "blue", Runtime: id, Group: group, IPv4: addr(address)}
	}
	for _, step := range []struct {
		set        any
		remove     string
		name, want string
	}{
		{endpoint("web.blue-c1", "back", "10.1.1.5"), "", "front.", "10.1.1.2"},
		{endpoint("web.blue-c4", "back", "10.1.2.4"), "", "back.", "10.1.1.5 10.1.2.4"},
		{nil, "web.blue-c1", "back.", "10.1.2.4"},
		{nil, "web.blue-c4", "back.", "NXDOMAIN"},
		{nil, "", "providers.shop.blue.contiv.internal.", "10.1.1.1 10.1.1.2 10.1.1.99"},
		{Service{ID: "Shop:blue", Tenant: "blue", Name: "shop", Address: addr("10.1.2.200"), Providers: []netip.Addr{addr("10.1.1.2")}}, "", "providers.shop.blue.contiv.internal.", "10.1.1.2"},
		{nil, "Shop:blue", "shop.", "10.1.2.1"}, // the container of that name
		{Endpoint{ID: "db.blue-c3", Tenant: "red", Container: "shop", IPv4: addr("10.1.2.1")}, "", "shop.", "NXDOMAIN"},
		{nil, "web.blue-c2", "front.", "NXDOMAIN"},
		{nil, "web.blue-c2", "front.", "NXDOMAIN"}, // twice
	} {
		z.set(step.set)
		z.remove(step.remove)
		if got := ask(z, "blue", step.name, dns.TypeA); got != step.want {
			t.Errorf("after %v, without %s: %s is %q, want %q", step.set, step.remove, step.name, got, step.want)
		}
	}
	for _, id := range []string{"web.blue", "db.blue", "web.red", "db.blue-c3", "web.red-c1", "web.red-c9", "new:blue"} {
		z.remove(id)
	}
	if left := len(z.networks) + len(z.endpoints) + len(z.services) + len(z.tenants); left != 0 {
		t.Errorf("something is left: %+v", z)
	}
}

// Whichever members of a group are removed, the others have its name.
func TestAGroupHasTheMembersThatAreLeft(t *testing.T) {
	z := NewZones()
	present := map[int]bool{}
	for range 2000 {
		i := rand.IntN(20)
		id := fmt.Sprint("c", i)
		if present[i] = !present[i]; present[i] {
			z.SetEndpoint(Endpoint{ID: id, Tenant: "blue", Group: "many", Runtime: id, IPv4: addr(fmt.Sprint("10.1.1.", i))})
		} else {
			z.RemoveEndpoint(id)
		}
		var want []string
		for n, there := range present {
			if there {
				want = append(want, fmt.Sprint("10.1.1.", n))
			}
		}
		slices.Sort(want)
		if got := z.lookup("blue", "many", true); len(want) != len(got.addresses) || got.known != (len(want) > 0) {
			t.Fatalf("%v, want %v", got, want)
		}
		if len(want) > 0 && ask(z, "blue", "many.", dns.TypeA) != strings.Join(want, " ") {
			t.Fatalf("%s, want %v", ask(z, "blue", "many.", dns.TypeA), want)
		}
	}
}

func TestWhatMayBeToComeIsNotDenied(t *testing.T) {
	z := exampleZones(t)
	z.SetPartial(true)
	for name, want := range map[string]string{
		"front.": "10.1.1.1 10.1.1.2", "nobody.": "unknown", "nobody.blue.contiv.internal.": "unknown", "_80._tcp.nobody.": "forwarded",
		"example.org.": "forwarded", "blue.contiv.internal.": "",
	} {
		if got := ask(z, "blue", name, dns.TypeA); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{"3.1.1.10.in-addr.arpa.": "unknown", "1.1.1.10.in-addr.arpa.": "web1.blue.contiv.internal.", "1.1.168.192.in-addr.arpa.": "forwarded"} {
		if got := ask(z, "blue", name, dns.TypePTR); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	z.SetPartial(false)
	if got := ask(z, "blue", "nobody.", dns.TypeA); got != "NXDOMAIN" {
		t.Errorf("complete: %q", got)
	}
}

// An unknown name costs no scan of each provider of a service, and the names of providers follow their endpoints.
func TestNamesOfProvidersAreFoundAtOnce(t *testing.T) {
	z := NewZones()
	service := Service{ID: "s", Tenant: "blue", Name: "shop"}
	for i := range 10_000 {
		service.Providers = append(service.Providers, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
	}
	z.SetService(service)
	endpoint := Endpoint{ID: "e", Tenant: "blue", Container: "till", IPv4: service.Providers[9999]}
	expect := func(name, want string) {
		t.Helper()
		if got := ask(z, "blue", name+".shop.blue.contiv.internal.", dns.TypeA); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	expect("till", "NXDOMAIN")
	expect("10-1-39-15", "10.1.39.15")
	z.SetEndpoint(endpoint)
	expect("till", "10.1.39.15")
	expect("10-1-39-15", "NXDOMAIN")
	endpoint.Container = "desk"
	z.SetEndpoint(endpoint)
	expect("till", "NXDOMAIN")
	expect("desk", "10.1.39.15")
	z.RemoveEndpoint("e")
	expect("desk", "NXDOMAIN")
	service.Providers = service.Providers[:9999]
	z.SetService(service)
	expect("10-1-39-15", "NXDOMAIN")
	if objects := testing.AllocsPerRun(10, func() { expect("nobody", "NXDOMAIN") }); objects > 1000 {
		t.Errorf("a question makes %.0f objects", objects)
	}
}

// All ports of all providers would be an answer as expensive as many.
func TestAnAnswerNamesSomeOfManyPorts(t *testing.T) {
	z := NewZones()
	service := Service{ID: "s", Tenant: "blue", Name: "shop", Address: addr("10.9.9.9")}
	for i := range 30 {
		service.Providers = append(service.Providers, netip.AddrFrom4([4]byte{10, 1, 1, byte(i)}))
		service.Ports = append(service.Ports, Port{"tcp", uint16(80 + i), uint16(8080 + i)}, Port{"udp", uint16(80 + i), uint16(8080 + i)})
	}
	z.SetService(service)
	seen := map[string]bool{}
	for range 400 {
		reply := new(dns.Msg).SetReply(question("_tcp.providers.shop.blue.contiv.internal.", dns.TypeSRV))
		if by := z.answer("blue", reply); by != partly || len(reply.Answer) != maxAddresses {
			t.Fatalf("verdict %d, %d records", by, len(reply.Answer))
		}
		found := map[string]bool{}
		for _, r := range reply.Extra {
			found[r.Header().Name] = true
		}
		for _, r := range reply.Answer {
			to := r.(*dns.SRV)
			if seen[fmt.Sprint(to.Target, to.Port)] = true; !found[to.Target] {
				t.Fatalf("no address of %s", to.Target)
			}
		}
	}
	if len(seen) != 30*30 {
		t.Errorf("%d of %d are named sometime", len(seen), 30*30)
	}
	if got := ask(z, "blue", "_udp.shop.blue.contiv.internal.", dns.TypeSRV); len(strings.Split(got, "shop.blue")) != 31 {
		t.Errorf("few are named all: %s", got)
	}
}

// Setting the same data again is no change.
func TestOnlyWhatIsDifferentIsAChange(t *testing.T) {
	z := NewZones()
	network := Network{ID: "n", Tenant: "blue", Subnets: [2]netip.Prefix{netip.MustParsePrefix("10.1.1.0/24")}}
	endpoint := Endpoint{ID: "e", Tenant: "blue", Group: "web", IPv4: addr("10.1.1.1")}
	service := func(providers ...netip.Addr) Service {
		return Service{ID: "s", Tenant: "blue", Name: "Shop", Address: addr("10.1.1.9"), Ports: []Port{{"tcp", 80, 8080}}, Providers: providers}
	}
	moved := endpoint
	moved.IPv4 = addr("10.1.1.2")
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"more is to come", func() { z.SetPartial(true) }},
		{"a network", func() { z.SetNetwork(network) }},
		{"an endpoint", func() { z.SetEndpoint(endpoint) }},
		{"another address", func() { z.SetEndpoint(moved) }},
		{"a service", func() { z.SetService(service()) }},
		{"a provider", func() { z.SetService(service(moved.IPv4)) }},
		{"no endpoint", func() { z.RemoveEndpoint("e") }},
		{"no network", func() { z.RemoveNetwork("n") }},
		{"no service", func() { z.RemoveService("s") }},
		{"all is there", func() { z.SetPartial(false) }},
	} {
		before := z.version.Load()
		step.do()
		after := z.version.Load()
		if step.do(); after == before || z.version.Load() != after {
			t.Errorf("%s: version %d, then %d, and once more %d", step.what, before, after, z.version.Load())
		}
	}
}

// Two services may have a name and an address for a moment, when they are added and removed in another order.
func TestAServiceHasItsNameAgainAfterAnotherHadIt(t *testing.T) {
	z := NewZones()
	for _, id := range []string{"one", "two"} {
		z.SetService(Service{ID: id, Tenant: "blue", Name: "shop", Address: addr("10.1.1.9")})
	}
	z.RemoveService("two")
	z.SetService(Service{ID: "one", Tenant: "blue", Name: "shop", Address: addr("10.1.1.9")})
	if got := ask(z, "blue", "shop.", dns.TypeA); got != "10.1.1.9" {
		t.Errorf("entered again: %q", got)
	}
	z.SetService(Service{ID: "two", Tenant: "blue", Name: "shop", Address: addr("10.1.1.9")})
	z.RemoveService("two")
	z.RemoveService("one")
	if got := ask(z, "blue", "shop.", dns.TypeA); got != "NXDOMAIN" || len(z.tenants) != 0 {
		t.Errorf("both removed: %q, tenants: %v", got, z.tenants)
	}
}

func TestAnAnswerNamesABoundedNumberOfMembersAndNotAlwaysTheSame(t *testing.T) {
	z := NewZones()
	for i := range 1000 {
		z.SetEndpoint(Endpoint{ID: fmt.Sprint("c", i), Tenant: "blue", Group: "front", IPv4: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})})
	}
	first, second := ask(z, "blue", "front.", dns.TypeA), ask(z, "blue", "front.", dns.TypeA)
	if n := len(strings.Fields(first)); n != maxAddresses || first == second {
		t.Errorf("%d addresses, want %d; %q and %q", n, maxAddresses, first, second)
	}
}

func TestRecordsListWhatNamesStandFor(t *testing.T) {
	got := exampleZones(t).Records()
	if s := fmt.Sprint(got["blue"]["endpointGroups"], got["blue"]["services"]["shop"], got["red"]["commonNames"]); s !=
		"map[front:[ipv4:10.1.1.1 ipv6:fd00:1::1 ipv4:10.1.1.2]] [ipv4:10.1.2.200] map[secret:[ipv4:10.1.1.77] web1:[ipv4:10.1.1.9]]" {
		t.Error(s)
	}
}

func FuzzNamesOfAnyContent(f *testing.F) {
	f.Add("front", "1.1.1.10.in-addr.arpa")
	f.Add("a.b", strings.TrimSuffix(reverse("fd00::1"), "."))
	f.Fuzz(func(t *testing.T, text, name string) {
		z := exampleZones(t)
		z.SetEndpoint(Endpoint{ID: "x", Tenant: "blue", Group: text, Container: text, Runtime: text, IPv4: addr("10.1.1.3")})
		z.SetService(Service{ID: "x", Tenant: "blue", Name: text, Address: addr("10.1.1.4"), Ports: []Port{{text, 1, 2}}, Providers: []netip.Addr{addr("10.1.1.3")}})
		ask(z, "blue", dns.Fqdn(name), dns.TypeANY)
		ask(z, "blue", "providers."+dns.Fqdn(text)+"blue.contiv.internal.", dns.TypeANY)
		ask(z, "blue", "_1._"+dns.Fqdn(text)+"providers."+dns.Fqdn(text)+"blue.contiv.internal.", dns.TypeSRV)
		z.Records()
		z.remove("x")
		if a, ok := parseReverse(name); ok && strings.TrimSuffix(reverse(a.String()), ".") != fold(name) && !strings.Contains(name, ".0") {
			t.Errorf("%q is not the reverse of %s", name, a)
		}
	})
}
