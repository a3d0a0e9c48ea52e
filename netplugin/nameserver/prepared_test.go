package nameserver

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/test/testkit"
)

// preparing is a server without sockets, for clients of one tenant.
type preparing struct {
	*Server
	prepared
	tenants map[netip.Addr]string
	ids     uint16
}

func newPreparing(z *Zones) *preparing {
	p := &preparing{tenants: map[netip.Addr]string{}}
	p.Server = &Server{Zones: z, Log: testkit.Quiet(), Tenant: func(a netip.Addr) (string, bool) {
		tenant, known := p.tenants[a]
		return tenant, known
	}}
	return p
}

// told returns the addresses in a client's answer, in their order.
func (p *preparing) told(t testing.TB, asker netip.Addr, name string) (list []string) {
	t.Helper()
	return p.tell(t, asker, question(name, dns.TypeA))
}

// tell asks a question, and returns the addresses in the answer.
func (p *preparing) tell(t testing.TB, asker netip.Addr, m *dns.Msg) (list []string) {
	t.Helper()
	p.ids++
	m.Id = p.ids
	data, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var reply dns.Msg
	if err := reply.Unpack(p.answer(t.Context(), data, asker, &p.prepared, nil, nil)); err != nil {
		t.Fatal(err)
	}
	if reply.Id != m.Id || !slices.Equal(reply.Question, m.Question) || (reply.IsEdns0() == nil) != (m.IsEdns0() == nil) {
		t.Fatalf("an answer to another question: %v", reply)
	}
	for _, r := range reply.Answer {
		list = append(list, strings.TrimPrefix(r.String(), r.Header().String()))
	}
	return list
}

func TestAnswersThatAreKeptFollowTheNamesAndStayWithTheirTenants(t *testing.T) {
	blue, red := netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("10.1.0.2")
	z := NewZones()
	p := newPreparing(z)
	p.tenants[blue], p.tenants[red] = "blue", "red"
	for round := range 4 {
		for i, who := range []netip.Addr{blue, red} {
			a := fmt.Sprintf("10.2.%d.%d", i, round)
			tenant := p.tenants[who]
			z.SetEndpoint(Endpoint{ID: tenant, Tenant: tenant, Group: "web", IPv4: netip.MustParseAddr(a)})
			for range 3 {
				if got := p.told(t, who, "web."); len(got) != 1 || got[0] != a {
					t.Fatalf("round %d: %s is told %v, want %s", round, tenant, got, a)
				}
			}
		}
	}
	z.RemoveEndpoint("blue")
	if got := p.told(t, blue, "web."); len(got) != 0 {
		t.Errorf("a name that has gone is still told: %v", got)
	}
	p.tenants[blue] = "red" // another endpoint has its place
	if got := p.told(t, blue, "web."); len(got) != 1 || got[0] != "10.2.1.3" {
		t.Errorf("who asks from an address that was another tenant's is told %v", got)
	}
}

// Clients that take the first address of an answer reach each member of a group about equally often, whether the
// answer is cached or does not fit in the size that the client accepts.
func TestAllAddressesOfAnswersAreFirstEquallyOften(t *testing.T) {
	const each = 30
	asker := netip.MustParseAddr("10.1.0.1")
	for _, c := range []struct {
		members int
		kind    uint16
		offers  uint16 // bytes; 0: without EDNS
		kept    bool
	}{
		{2, dns.TypeA, 0, true}, {40, dns.TypeA, 0, false}, {40, dns.TypeA, MaxUDP, true}, {30, dns.TypeAAAA, MaxUDP, true}, {10, dns.TypeANY, MaxUDP, false},
	} {
		z := NewZones()
		for i := range c.members {
			z.SetEndpoint(Endpoint{ID: fmt.Sprint(i), Tenant: "blue", Group: "web", IPv4: addr(fmt.Sprint("10.2.0.", i)), IPv6: addr(fmt.Sprintf("fd00::%x", i+1))})
		}
		p := newPreparing(z)
		p.tenants[asker] = "blue"
		m := question("web.", c.kind)
		if c.offers > 0 {
			m.SetEdns0(c.offers, false)
		}
		first, addresses := map[string]int{}, c.members
		if c.kind == dns.TypeANY {
			addresses *= 2
		}
		asked := uint64(each * addresses)
		for range asked {
			list := p.tell(t, asker, m)
			first[list[0]]++
			if slices.Sort(list); len(slices.Compact(list)) != len(list) || c.kept && len(list) != c.members {
				t.Fatalf("%+v: told %v", c, list)
			}
		}
		for a, n := range first { // bounds that chance passes once in a hundred million
			if n < each/10 || n > 3*each {
				t.Errorf("%+v: %s is first %d times, others about %d", c, a, n, each)
			}
		}
		if len(first) != addresses || (len(p.answers) == 1) != c.kept {
			t.Errorf("%+v: %d addresses are ever first; kept: %d answers", c, len(first), len(p.answers))
		}
		if got := p.Stats(); got.Answered != asked || got.Tenants["blue"].Named != asked {
			t.Errorf("%+v: counted: %+v", c, got)
		}
	}
}

// An answer with room to spare may still have some of very many: those of one family among them.
func TestAnswersThatNameSomeOfManyAreNotKept(t *testing.T) {
	z, asker := NewZones(), netip.MustParseAddr("10.1.0.1")
	shop := Service{ID: "shop", Tenant: "blue", Name: "shop", Address: addr("10.3.0.1")}
	for i := range 200 {
		e := Endpoint{ID: fmt.Sprint(i), Tenant: "blue", Group: "web", IPv4: addr(fmt.Sprint("10.2.0.", i))}
		if i%4 == 0 {
			e.IPv6 = addr(fmt.Sprintf("fd00::%x", i+1))
			shop.Providers = append(shop.Providers, e.IPv4, e.IPv6)
		}
		z.SetEndpoint(e)
	}
	z.SetService(shop)
	p := newPreparing(z)
	p.tenants[asker] = "blue"
	for _, c := range []struct {
		name string
		kind uint16
		want int
	}{{"web.", dns.TypeAAAA, 50}, {"web.", dns.TypeA, 200}, {"providers.shop.blue.contiv.internal.", dns.TypeA, 50}, {"providers.shop.blue.contiv.internal.", dns.TypeAAAA, 50}} {
		m, named := question(c.name, c.kind), map[string]bool{}
		m.SetEdns0(MaxUDP, false)
		for range 400 { // where each is in a quarter of the answers or more
			for _, a := range p.tell(t, asker, m) {
				named[a] = true
			}
		}
		if len(named) != c.want || len(p.answers) != 0 {
			t.Errorf("%s %s: %d addresses are ever named, want %d; kept: %d answers", c.name, dns.TypeToString[c.kind], len(named), c.want, len(p.answers))
		}
	}
}

func TestAnswersThatAreKeptAreBounded(t *testing.T) {
	z, asker := NewZones(), netip.MustParseAddr("10.1.0.1")
	for i := range maxAddresses + 1 {
		z.SetEndpoint(Endpoint{ID: fmt.Sprint(i), Tenant: "blue", Group: "many", Container: "one", IPv4: netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})})
	}
	const long = "abcdefghijklmnop"
	z.SetEndpoint(Endpoint{ID: "long", Tenant: "blue", Group: long, IPv4: asker})
	p := newPreparing(z)
	p.tenants[asker] = "blue"
	p.told(t, asker, "many.")
	p.told(t, asker, "none.")
	if len(p.answers) != 0 {
		t.Errorf("kept: %d, of an answer that names some of many, and of a name that is not there", len(p.answers))
	}
	for i := range 3 * maxPrepared { // the same name, in ever other spellings
		name := []byte(long + ".")
		for bit := range len(name) {
			if i>>bit&1 == 1 {
				name[bit] = strings.ToUpper(string(name[bit]))[0]
			}
		}
		p.told(t, asker, string(name))
		if len(p.answers) > maxPrepared {
			t.Fatalf("%d answers are kept", len(p.answers))
		}
	}
}

// BenchmarkAnswer measures the answer to a repeated question, without sockets.
func BenchmarkAnswer(b *testing.B) {
	s := &Server{Zones: exampleZones(b), Tenant: inBlue}
	var again prepared
	data, err := question("front.", dns.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	space := make([]byte, 0, MaxUDP)
	b.ReportAllocs()
	for b.Loop() {
		if s.answer(b.Context(), data, netip.Addr{}, &again, space, nil) == nil {
			b.Fatal("no answer")
		}
	}
}
