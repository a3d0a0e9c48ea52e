package nameserver

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
)

// One warning is logged about name servers that do not answer, however many questions there are.
func TestNameServersWithoutAnAnswerAreTold(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	dead := netip.MustParseAddrPort("127.0.0.1:1")
	s := &Server{Zones: NewZones(), Tenant: inBlue, Log: logrus.NewEntry(log), Forwarder: NewForwarder(Fixed(dead))}
	for _, name := range []string{"one.example.org.", "two.example.org."} {
		reply := new(dns.Msg).SetQuestion(name, dns.TypeA)
		if find := s.forward("blue", someone, reply, true); find != nil {
			find(t.Context())
		}
		if reply.Rcode != dns.RcodeServerFailure {
			t.Errorf("%s: %s", name, dns.RcodeToString[reply.Rcode])
		}
	}
	told := hook.AllEntries()
	if len(told) != 1 || told[0].Level != logrus.WarnLevel || told[0].Data["name"] != "one.example.org." || !strings.Contains(told[0].Data["error"].(error).Error(), dead.String()) {
		t.Errorf("told: %+v", told)
	}
}

// A name server that does not answer costs each question some time though the next one answers, so that is
// reported as well.
func TestNameServersThatArePassedOverAreTold(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	dead := netip.MustParseAddrPort("127.0.0.1:1")
	good := upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		tell(w, m, dns.RcodeSuccess, m.Question[0].Name+" 60 IN A 192.0.2.1")
	})
	servers := []netip.AddrPort{dead, good}
	s := &Server{Zones: NewZones(), Tenant: inBlue, Log: logrus.NewEntry(log), Forwarder: NewForwarder(func() []netip.AddrPort { return servers })}
	s.Forwarder.patience = time.Minute
	state := func(name string) State {
		t.Helper()
		reply := new(dns.Msg).SetQuestion(name, dns.TypeA)
		if find := s.forward("blue", someone, reply, true); find != nil {
			find(t.Context())
		}
		if reply.Rcode != dns.RcodeSuccess {
			t.Errorf("%s: %s", name, dns.RcodeToString[reply.Rcode])
		}
		return (&Node{servers: []*Server{s}}).State()
	}
	for _, name := range []string{"one.example.org.", "two.example.org."} {
		if got := state(name); got.Problem != "" || !strings.Contains(got.PassedOver, dead.String()) || !strings.Contains(got.PassedOver, "refused") {
			t.Errorf("%+v", got)
		}
	}
	told := hook.AllEntries()
	if len(told) != 1 || told[0].Level != logrus.WarnLevel || !strings.Contains(told[0].Data["error"].(string), dead.String()) {
		t.Errorf("told: %+v", told)
	}
	servers = []netip.AddrPort{good}
	if got := state("three.example.org."); got.PassedOver != "" {
		t.Errorf("after the first has answered: %+v", got)
	}
}
