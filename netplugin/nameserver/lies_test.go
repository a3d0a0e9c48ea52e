package nameserver

import (
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// An upstream's records about names and zones other than the question's are neither passed on nor cached, least of
// all those about tenants' own names.
func TestWhatNobodyHasAskedIsNotBelieved(t *testing.T) {
	const lie = "front.blue.contiv.internal. 60 IN A 192.0.2.66"
	soa := func(zone string) string { return zone + " 60 IN SOA ns.example.org. x.example.org. 1 2 3 4 60" }
	for _, c := range []struct {
		what    string
		rcode   int
		records []string
		want    string
	}{
		{"an alias of a tenant's name", dns.RcodeSuccess, []string{"app.example.org. 60 IN CNAME Front.Blue.contiv.internal.", lie},
			"NOERROR app.example.org. 60 IN CNAME Front.Blue.contiv.internal."},
		{"an alias of one label", dns.RcodeSuccess, []string{"app.example.org. 60 IN CNAME front.", "front. 60 IN A 192.0.2.66"},
			"NOERROR app.example.org. 60 IN CNAME front."},
		{"an alias of the domain", dns.RcodeSuccess, []string{"app.example.org. 60 IN CNAME contiv.internal.", "contiv.internal. 60 IN A 192.0.2.66"},
			"NOERROR app.example.org. 60 IN CNAME contiv.internal."},
		{"a tenant's name beside the answer", dns.RcodeSuccess, []string{"app.example.org. 60 IN A 192.0.2.1", lie}, "NOERROR app.example.org. 60 IN A 192.0.2.1"},
		{"an alias of itself", dns.RcodeSuccess, []string{"app.example.org. 60 IN CNAME app.example.org."}, "NOERROR app.example.org. 60 IN CNAME app.example.org."},
		{"another class", dns.RcodeSuccess, []string{"app.example.org. 60 CH A 192.0.2.66"}, "NOERROR"},
		{"another zone does not exist", dns.RcodeNameError, []string{soa("example.com.")}, "NXDOMAIN"},
		{"the zone of tenants does not exist", dns.RcodeNameError, []string{soa("blue.contiv.internal.")}, "NXDOMAIN"},
		{"the zone below does not exist", dns.RcodeNameError, []string{soa("x.app.example.org.")}, "NXDOMAIN"},
		{"its zone", dns.RcodeNameError, []string{soa("Example.org.")}, "NXDOMAIN " + soa("Example.org.")},
		{"the zone of its alias", dns.RcodeNameError, []string{"app.example.org. 60 IN CNAME app.example.com.", soa("example.com.")},
			"NXDOMAIN app.example.org. 60 IN CNAME app.example.com. " + soa("example.com.")},
		{"all there is", dns.RcodeNameError, []string{soa(".")}, "NXDOMAIN " + soa(".")},
	} {
		t.Run(c.what, func(t *testing.T) {
			f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) { tell(w, m, c.rcode, c.records...) })))
			f.patience = time.Minute
			for _, round := range []string{"first", "again"} {
				if got := told(askWhole(t, f, someone, of("app.example.org."))); got != c.want {
					t.Errorf("%s: %s, want %s", round, got, c.want)
				}
			}
		})
	}
}

// An answer with the right number of a question, but from another address or port than the asked one, is ignored.
func TestAnswersFromElsewhereAreNotHeard(t *testing.T) {
	t.Parallel()
	for what, from := range map[string]net.IP{"another address": net.IPv4(127, 0, 0, 2), "another port": net.IPv4(127, 0, 0, 1)} {
		elsewhere, err := net.ListenUDP("udp", &net.UDPAddr{IP: from})
		if err != nil {
			t.Fatal(err)
		}
		defer elsewhere.Close()
		f := NewForwarder(Fixed(upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			lie := new(dns.Msg).SetReply(m)
			lie.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.IPv4(192, 0, 2, 66)}}
			data, err := lie.Pack()
			if err == nil {
				_, err = elsewhere.WriteTo(data, w.RemoteAddr())
			}
			if err != nil {
				t.Error(err)
			}
			tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
		})))
		if got := told(askWhole(t, f, someone, of("example.org."))); got != "NOERROR example.org. 60 IN A 192.0.2.1" {
			t.Errorf("%s: %s", what, got)
		}
	}
}
