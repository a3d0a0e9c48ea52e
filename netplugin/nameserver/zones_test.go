package nameserver

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// example is the store of two tenants with the same names and addresses.
var example = map[string]string{
	mastercfg.NetworkPrefix + "web.blue": `{"tenant":"blue","subnetIP":"10.1.1.0","subnetLen":24,"ipv6SubnetIP":"fd00:1::","ipv6SubnetLen":64}`,
	mastercfg.NetworkPrefix + "db.blue":  `{"tenant":"blue","subnetIP":"10.1.2.0","subnetLen":24}`,
	mastercfg.NetworkPrefix + "web.red":  `{"tenant":"red","subnetIP":"10.1.1.0","subnetLen":24}`,

	mastercfg.EndpointPrefix + "web.blue-c1": `{"netID":"web.blue","endpointID":"c1","endpointGroupKey":"Front:blue","epCommonName":"/Web1","ipAddress":"10.1.1.1","ipv6Address":"fd00:1::1"}`,
	mastercfg.EndpointPrefix + "web.blue-c2": `{"netID":"web.blue","endpointID":"c2","endpointGroupKey":"Front:blue","epCommonName":"a.b","ipAddress":"10.1.1.2"}`,
	mastercfg.EndpointPrefix + "db.blue-c3":  `{"netID":"db.blue","endpointID":"c3","epCommonName":"shop","ipAddress":"10.1.2.1"}`,
	mastercfg.EndpointPrefix + "web.red-c1":  `{"netID":"web.red","endpointID":"c1","endpointGroupKey":"Front:red","epCommonName":"web1","ipAddress":"10.1.1.9"}`,
	mastercfg.EndpointPrefix + "web.red-c9":  `{"netID":"web.red","endpointID":"c9","epCommonName":"secret","ipAddress":"10.1.1.77"}`,

	mastercfg.ServiceLBPrefix + "Shop:blue": `{"servicename":"Shop","tenantname":"blue","ipaddress":"10.1.2.200","ports":["80:8080:TCP","53:5353:UDP","junk"]}`,
	mastercfg.ServiceLBPrefix + "new:blue":  `{"servicename":"new","tenantname":"blue","ipaddress":"","ports":["80:80:TCP"]}`,
}

func exampleZones(t testing.TB) *Zones {
	t.Helper()
	z := NewZones()
	for key, value := range example { // in any order
		if err := z.Apply(key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	return z
}

// ask returns what a tenant is told: the code if it is an error, and the data of
// the records in alphabetical order; "forwarded" if somebody else is to answer.
func ask(z *Zones, tenant, name string, kind uint16) string {
	reply := new(dns.Msg).SetReply(new(dns.Msg).SetQuestion(name, kind))
	if z.answer(tenant, reply) == forwarded {
		return "forwarded"
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

		// Nothing of another tenant, not even that it is there.
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

func reverse(a string) string {
	name, err := dns.ReverseAddr(a)
	if err != nil {
		return err.Error()
	}
	return name
}

func TestNamesComeAndGoWithTheirRecords(t *testing.T) {
	z := exampleZones(t)
	apply := func(key, value string) {
		t.Helper()
		var v []byte
		if value != "" {
			v = []byte(value)
		}
		if err := z.Apply(key, v); err != nil && value != "{" {
			t.Error(err)
		}
	}
	for _, step := range []struct{ key, value, name, want string }{
		{mastercfg.EndpointPrefix + "web.blue-c1", `{"netID":"web.blue","endpointID":"c1","endpointGroupKey":"back:blue","ipAddress":"10.1.1.5"}`, "front.", "10.1.1.2"},
		{mastercfg.EndpointPrefix + "web.blue-c4", `{"netID":"db.blue","endpointID":"c4","endpointGroupKey":"back:blue","ipAddress":"10.1.2.4"}`, "back.", "10.1.1.5 10.1.2.4"},
		{mastercfg.EndpointPrefix + "web.blue-c1", "", "back.", "10.1.2.4"},
		{mastercfg.EndpointPrefix + "web.blue-c4", "{", "back.", "NXDOMAIN"}, // cannot be read
		{mastercfg.ServiceLBPrefix + "Shop:blue", "", "shop.", "10.1.2.1"},   // the container of that name
		{mastercfg.NetworkPrefix + "db.blue", `{"tenant":"red","subnetIP":"10.1.2.0","subnetLen":24}`, "shop.", "NXDOMAIN"},
		{mastercfg.EndpointPrefix + "web.blue-c2", "", "front.", "NXDOMAIN"},
	} {
		apply(step.key, step.value)
		if got := ask(z, "blue", step.name, dns.TypeA); got != step.want {
			t.Errorf("after %s %s: %s is %q, want %q", step.key, step.value, step.name, got, step.want)
		}
	}
	for key := range example {
		apply(key, "")
	}
	if left := len(z.networks) + len(z.endpoints) + len(z.services) + len(z.members) + len(z.tenants) + len(z.virtual) + len(z.serviceOf); left != 0 {
		t.Errorf("something is left: %+v", z)
	}
}

func TestAnAnswerNamesABoundedNumberOfMembersAndNotAlwaysTheSame(t *testing.T) {
	z := NewZones()
	if err := z.Apply(mastercfg.NetworkPrefix+"web.blue", []byte(example[mastercfg.NetworkPrefix+"db.blue"])); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		a := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		value := fmt.Sprintf(`{"netID":"web.blue","endpointID":"c%d","endpointGroupKey":"front:blue","ipAddress":"%s"}`, i, a)
		if err := z.Apply(fmt.Sprintf("%sweb.blue-c%d", mastercfg.EndpointPrefix, i), []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	first, second := ask(z, "blue", "front.", dns.TypeA), ask(z, "blue", "front.", dns.TypeA)
	if n := len(strings.Fields(first)); n != maxAddresses || first == second {
		t.Errorf("%d addresses, want %d; %q and %q", n, maxAddresses, first, second)
	}
}

func TestRecordsListWhatNamesStandFor(t *testing.T) {
	got := exampleZones(t).Records()
	if s := fmt.Sprint(got["blue"]["endpointGroups"], got["blue"]["services"]["shop"], got["red"]["commonNames"]); s !=
		"map[front:[10.1.1.1 10.1.1.2 fd00:1::1]] [10.1.2.200] map[secret:[10.1.1.77] web1:[10.1.1.9]]" {
		t.Error(s)
	}
}

func FuzzRecordsAndReversedNamesOfAnyContent(f *testing.F) {
	f.Add(example[mastercfg.EndpointPrefix+"web.blue-c1"], "1.1.1.10.in-addr.arpa")
	f.Add(example[mastercfg.ServiceLBPrefix+"Shop:blue"], strings.TrimSuffix(reverse("fd00::1"), "."))
	f.Fuzz(func(t *testing.T, value, name string) {
		z := exampleZones(t)
		for key := range example {
			if err := z.Apply(key, []byte(value)); err != nil {
				continue
			}
		}
		ask(z, "blue", dns.Fqdn(name), dns.TypeANY)
		if a, ok := parseReverse(name); ok && strings.TrimSuffix(reverse(a.String()), ".") != fold(name) && !strings.Contains(name, ".0") {
			t.Errorf("%q is not the reverse of %s", name, a)
		}
	})
}
