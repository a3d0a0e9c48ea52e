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

// preparing is a server without sockets whose tenant is the asker's.
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

// told are the addresses that an asker is told, in their order.
func (p *preparing) told(t testing.TB, asker netip.Addr, name string) (list []string) {
	t.Helper()
	m := question(name, dns.TypeA)
	p.ids++
	m.Id = p.ids
	data, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	var reply dns.Msg
	if err := reply.Unpack(p.answer(t.Context(), data, asker, &p.prepared, nil)); err != nil {
		t.Fatal(err)
	}
	if reply.Id != m.Id || !slices.Equal(reply.Question, m.Question) {
		t.Fatalf("an answer to another question: %v", reply)
	}
	for _, r := range reply.Answer {
		list = append(list, r.(*dns.A).A.String())
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

func TestAnswersThatAreKeptComeInSeveralOrders(t *testing.T) {
	z, asker := NewZones(), netip.MustParseAddr("10.1.0.1")
	for i := range 3 {
		z.SetEndpoint(Endpoint{ID: fmt.Sprint(i), Tenant: "blue", Group: "web", IPv4: netip.AddrFrom4([4]byte{10, 2, 0, byte(i)})})
	}
	p := newPreparing(z)
	p.tenants[asker] = "blue"
	for range maxOrders {
		p.told(t, asker, "web.")
	}
	orders := map[string]int{}
	for range 100 * maxOrders {
		orders[strings.Join(p.told(t, asker, "web."), " ")]++
	}
	if len(orders) < 3 { // that all of maxOrders are two of the six has a chance of 1 in 2 million
		t.Errorf("orders: %v", orders)
	}
	if got := p.Stats(); got.Answered != 101*maxOrders || got.Tenants["blue"].Named != 101*maxOrders {
		t.Errorf("counted: %+v", got)
	}
}

func TestAnswersThatAreKeptAreBounded(t *testing.T) {
	z, asker := NewZones(), netip.MustParseAddr("10.1.0.1")
	for i := range maxAddresses {
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
	for i := range 3 * maxPrepared { // the same name, written in ever other ways
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

// BenchmarkAnswer is what finding an answer that was given before costs, without sockets.
func BenchmarkAnswer(b *testing.B) {
	s := &Server{Zones: exampleZones(b), Tenant: inBlue}
	var again prepared
	data, err := question("front.", dns.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if s.answer(b.Context(), data, netip.Addr{}, &again, nil) == nil {
			b.Fatal("no answer")
		}
	}
}
